-- What operators did, and what they set for a queue.

-- One row per action, in the same commit as the action. Ids are time-ordered.
create table holdfast_audit (
    id          text collate "C" not null primary key,
    at          bigint not null,
    actor       text not null,
    action      text not null,
    target_kind text not null,
    target      text collate "C" not null,
    reason      text not null default '',
    -- JSON; what was there, and what is there now or how many were changed.
    before      text,
    after       text
);
create index holdfast_audit_at on holdfast_audit (at);
create index holdfast_audit_target on holdfast_audit (target_kind, target, id);

-- What a queue's jobs get where neither the call nor the task says it; durations in microseconds, null is the default.
alter table holdfast_queue add column retry text;
alter table holdfast_queue add column timeout bigint;
-- How long a finished job is kept, by how it ended; 0 is not at all.
alter table holdfast_queue add column keep_succeeded bigint;
alter table holdfast_queue add column keep_failed bigint;
alter table holdfast_queue add column keep_cancelled bigint;
alter table holdfast_queue add column keep_expired bigint;
alter table holdfast_queue add column keep_skipped bigint;
-- How long the result of a success is kept; null is as long as the job.
alter table holdfast_queue add column keep_result bigint;

-- With queue and state, what retention and counts read of finished jobs is in the index.
drop index holdfast_job_finished;
create index holdfast_job_ended on holdfast_job (finished_at, queue, state) where finished_at is not null;

-- Lists and counts read these, whatever the number of finished jobs. Together they add a tenth to what enqueue, claim
-- and finish of a job cost the store: 67 to 73 µs on SQLite, 90 to 100 on Postgres.
create index holdfast_job_queued on holdfast_job (queue, id, not_before) where due is not null;
create index holdfast_job_unsuccessful on holdfast_job (state, queue, id, task)
    where finished_at is not null and state <> 'succeeded';
create index holdfast_job_history on holdfast_job (task, queue, id) where finished_at is not null;
