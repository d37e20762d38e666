-- name: outcomes_of
-- Differs in how a list is passed.
select id, state, result, error, reason from holdfast_ended
 where id = any(array(select json_array_elements_text(:ids::json))) and finished_at is not null;

-- The queues and tasks of a pool are found by jumping along its index from one to the next; each gives its first n.
-- These differ because only Postgres has lateral joins, and SQLite needs its index by name.

-- name: find_running
-- At most as many as workers have slots. Index: holdfast_live_owned; ordered by it, or a server without statistics
-- would assume that every row is owned.
select live.id from (select * from holdfast_live where owner is not null order by owner limit 1000000) as live
 where live.id < :before and @wanted(live)
 order by live.id desc limit :n;

-- name: find_ready
-- Index: holdfast_live_queued.
with recursive q(queue) as (
    select coalesce(:queue::text, (select min(queue) from holdfast_live where due is not null))
    union all
    select (select min(job.queue) from holdfast_live as job where job.due is not null and job.queue > q.queue)
      from q where q.queue is not null and :queue::text is null
)
select found.id from q
 cross join lateral (select live.id from holdfast_live as live
                      where live.due is not null and live.queue = q.queue and live.id < :before and @wanted(live)
                      order by live.id desc limit :n) as found
 where q.queue is not null
 order by found.id desc limit :n;

-- name: find_later
-- Ready, and not due yet. Index: holdfast_live_later; `offset 0` keeps it from reading the table in the order of ids.
select live.id
  from (select * from holdfast_live where due = 0 and not_before > :now offset 0) as live
 where live.id < :before and @wanted(live)
 order by live.id desc limit :n;

-- name: find_unsuccessful
-- In one of the four states. Index: holdfast_ended_unsuccessful.
with recursive q(queue) as (
    select coalesce(:queue::text, (select min(queue) from holdfast_ended
                                    where state <> 'succeeded' and state = :state))
    union all
    select (select min(job.queue) from holdfast_ended as job
             where job.state <> 'succeeded' and job.state = :state
               and job.queue > q.queue)
      from q where q.queue is not null and :queue::text is null
)
select found.id from q
 cross join lateral (select ended.id from holdfast_ended as ended
                      where ended.state <> 'succeeded' and ended.state = :state
                        and ended.queue = q.queue and ended.id < :before and @wanted(ended)
                      order by ended.id desc limit :n) as found
 where q.queue is not null
 order by found.id desc limit :n;

-- name: find_of_flow
-- Only its members are read. Index: holdfast_job_member; `offset 0` keeps the order by id from choosing another.
select job.id from (select * from holdfast_any_job where flow = :flow offset 0) as job
 where job.id < :before and @wanted(job)
 order by job.id desc limit :n;

-- name: narrow_ids
-- Those of some jobs that match the conditions without an index. By the primary key; `offset 0` prevents any other.
select job.id
  from (select * from holdfast_any_job where id = any(array(select json_array_elements_text(:ids::json))) offset 0) as job
 where @wanted(job)
   and (cast(:priority as bigint) is null or job.priority = :priority)
   and (cast(:min_attempts as bigint) is null or job.attempts >= :min_attempts)
   and (cast(:created_by as text) is null or job.created_by = :created_by)
   and (cast(:affinity as text) is null
        or job.route in (select id from holdfast_route where affinity = :affinity))
   and (cast(:tag as text) is null
        or exists (select 1 from json_array_elements_text(job.tags::json) as tag where tag = :tag))
   and (cast(:text as text) is null or strpos(job.payload, :text) > 0 or strpos(job.error, :text) > 0)
 order by job.id desc;

-- name: find_ended
-- Index: holdfast_ended_task.
with recursive t(task) as (
    select coalesce(:task::text, (select min(task) from holdfast_ended where finished_at is not null))
    union all
    select (select min(job.task) from holdfast_ended as job where job.task > t.task)
      from t where t.task is not null and :task::text is null
), q(task, queue) as (
    select t.task, coalesce(:queue::text, (select min(job.queue) from holdfast_ended as job
                                            where job.task = t.task))
      from t where t.task is not null
    union all
    select q.task, (select min(job.queue) from holdfast_ended as job
                     where job.task = q.task and job.queue > q.queue)
      from q where q.queue is not null and :queue::text is null
)
select found.id from q
 cross join lateral (select ended.id from holdfast_ended as ended
                      where ended.task = q.task and ended.queue = q.queue
                        and ended.id < :before and @wanted(ended)
                      order by ended.id desc limit :n) as found
 where q.queue is not null
 order by found.id desc limit :n;

-- name: jobs_by_id
select @job from holdfast_any_job where id = any(array(select json_array_elements_text(:ids::json))) order by id desc;
