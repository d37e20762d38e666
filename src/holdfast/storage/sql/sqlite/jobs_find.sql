-- name: outcomes_of
-- Differs in how a list is passed.
select id, state, result, error, reason from holdfast_ended
 where id in (select value from json_each(:ids)) and finished_at is not null;

-- The queues and tasks of a pool are found by jumping along its index from one to the next; each gives its first n.
-- These differ because only Postgres has lateral joins, and SQLite needs its index by name.

-- name: find_running
-- At most as many as workers have slots. Index: holdfast_live_owned.
select live.id from holdfast_live as live indexed by holdfast_live_owned
 where live.owner is not null and live.id < :before and @wanted(live)
 order by live.id desc limit :n;

-- name: find_ready
-- Index: holdfast_live_queued.
with recursive q(queue) as (
    select coalesce(:queue, (select min(queue) from holdfast_live where due is not null))
    union all
    select (select min(job.queue) from holdfast_live as job where job.due is not null and job.queue > q.queue)
      from q where q.queue is not null and :queue is null
)
select found.id from q
 cross join holdfast_live as found
    on found.id in (select live.id from holdfast_live as live indexed by holdfast_live_queued
                        where live.due is not null and live.queue = q.queue and live.id < :before and @wanted(live)
                        order by live.id desc limit :n)
 order by found.id desc limit :n;

-- name: find_later
-- Ready, and not due yet. Index: holdfast_live_later; in the order of ids SQLite would read the table.
select live.id from holdfast_live as live indexed by holdfast_live_later
 where live.due = 0 and live.not_before > :now and live.id < :before and @wanted(live)
 order by live.id desc limit :n;

-- name: find_unsuccessful
-- In one of the four states. Index: holdfast_ended_unsuccessful.
with recursive q(queue) as (
    select coalesce(:queue, (select min(queue) from holdfast_ended
                              where state <> 'succeeded' and state = :state))
    union all
    select (select min(job.queue) from holdfast_ended as job
             where job.state <> 'succeeded' and job.state = :state
               and job.queue > q.queue)
      from q where q.queue is not null and :queue is null
)
select found.id from q
 cross join holdfast_ended as found
    on found.id in (select ended.id from holdfast_ended as ended indexed by holdfast_ended_unsuccessful
                        where ended.state <> 'succeeded' and ended.state = :state
                          and ended.queue = q.queue and ended.id < :before and @wanted(ended)
                        order by ended.id desc limit :n)
 order by found.id desc limit :n;

-- name: find_of_flow
-- Only its members are read. Index: holdfast_job_member.
select job.id from holdfast_any_job as job
 where job.flow = :flow and job.id < :before and @wanted(job)
 order by job.id desc limit :n;

-- name: narrow_ids
-- Those of some jobs that match the conditions without an index. By the primary key.
select job.id from json_each(:ids) as given
 cross join holdfast_any_job as job on job.id = given.value
 where @wanted(job)
   and (cast(:priority as bigint) is null or job.priority = :priority)
   and (cast(:min_attempts as bigint) is null or job.attempts >= :min_attempts)
   and (cast(:created_by as text) is null or job.created_by = :created_by)
   and (cast(:affinity as text) is null
        or job.route in (select id from holdfast_route where affinity = :affinity))
   and (:tag is null or exists (select 1 from json_each(job.tags) as tag where tag.value = :tag))
   and (:text is null or instr(job.payload, :text) > 0 or instr(job.error, :text) > 0)
 order by job.id desc;

-- name: find_ended
-- Index: holdfast_ended_task.
with recursive t(task) as (
    select coalesce(:task, (select min(task) from holdfast_ended where finished_at is not null))
    union all
    select (select min(job.task) from holdfast_ended as job where job.task > t.task)
      from t where t.task is not null and :task is null
), q(task, queue) as (
    select t.task, coalesce(:queue, (select min(job.queue) from holdfast_ended as job
                                      where job.task = t.task))
      from t where t.task is not null
    union all
    select q.task, (select min(job.queue) from holdfast_ended as job
                     where job.task = q.task and job.queue > q.queue)
      from q where q.queue is not null and :queue is null
)
select found.id from q
 cross join holdfast_ended as found
    on found.id in (select ended.id from holdfast_ended as ended indexed by holdfast_ended_task
                        where ended.task = q.task and ended.queue = q.queue
                          and ended.id < :before and @wanted(ended)
                        order by ended.id desc limit :n)
 order by found.id desc limit :n;

-- name: jobs_by_id
select @job from holdfast_any_job where id in (select value from json_each(:ids)) order by id desc;
