-- name: set_queue_state
insert into holdfast_queue (name, state) values (:name, :state)
    on conflict (name) do update set state = excluded.state;

-- name: lock_queue
-- Creates the row if there is none. The update that changes nothing locks it until the end of the transaction, so that
-- what is read here is what the write replaces.
insert into holdfast_queue (name) values (:name)
    on conflict (name) do update set name = excluded.name
returning name, state, retry, timeout, keep_succeeded, keep_failed, keep_cancelled, keep_expired, keep_skipped,
          keep_result, cap, events;

-- name: write_queue
update holdfast_queue
   set state = :state, retry = :retry, timeout = :timeout, keep_succeeded = :keep_succeeded,
       keep_failed = :keep_failed, keep_cancelled = :keep_cancelled, keep_expired = :keep_expired,
       keep_skipped = :keep_skipped, keep_result = :keep_result, cap = :cap, events = :events
 where name = :name;

-- name: get_queue
select name, state, retry, timeout, keep_succeeded, keep_failed, keep_cancelled, keep_expired, keep_skipped,
       keep_result, cap, events
  from holdfast_queue where name = :name;

-- name: list_queues
select name, state, retry, timeout, keep_succeeded, keep_failed, keep_cancelled, keep_expired, keep_skipped,
       keep_result, cap, events
  from holdfast_queue order by name;

-- name: time_and_closed_queues
-- Facts needed before jobs are stored by copy: the database's clock, whether a queue accepts none, and whether
-- one records all events.
select :now, (select min(name) from holdfast_queue where state in ('draining', 'disabled')),
       (select min(name) from holdfast_queue where events = 'all');

-- name: tasks_of_queue
-- Of ended jobs by one step on holdfast_ended_task for each task; of live ones by the jobs that wait or run.
with recursive ended(task) as (
    select min(task) from holdfast_ended
    union all
    select (select min(job.task) from holdfast_ended as job where job.task > ended.task)
      from ended where ended.task is not null
)
select task from ended
 where task is not null
   and exists (select 1 from holdfast_ended as job
                where job.task = ended.task and job.queue = :queue)
union select task from holdfast_live where due is not null and queue = :queue
union select task from holdfast_live where owner is not null and queue = :queue
union select task from holdfast_live where state in ('blocked', 'suspended') and queue = :queue
 order by 1;

-- name: queue_states
select name, state from holdfast_queue order by name;

-- name: queue_state
select state from holdfast_queue where name = :name;

-- name: queue_stands
-- Index: holdfast_live_owned.
select q.state, q.cool_until - :now, q.max_workers,
       (select count(*) from holdfast_live as job where job.owner is not null and job.queue = q.name)
  from holdfast_queue as q where q.name = :name;
