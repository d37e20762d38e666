-- A queue's total of jobs at once over all workers, and each worker's share of it.
alter table holdfast_queue add column max_workers bigint check (max_workers >= 0);

create table holdfast_share (
    queue  text not null,
    worker text collate "C" not null,
    slots  bigint not null,
    primary key (queue, worker)
);

-- What a worker offers to tasks that ask for it, as JSON.
alter table holdfast_worker add column capabilities text not null default '[]';
