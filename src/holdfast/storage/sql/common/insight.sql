-- name: get_job
select @job from holdfast_job where id = :id;

-- name: job_attempts
select epoch, generation, attempt, outcome, worker, started_at, ended_at, error
  from holdfast_attempt where job_id = :job_id order by epoch;

-- name: count_jobs
-- Future-dated rows are counted apart from what could start now.
select queue, state, case when state = 'ready' and not_before > :now then 1 else 0 end, count(*)
  from holdfast_job
 group by 1, 2, 3
 order by 1, 2, 3;

-- name: queue_states
select name, state from holdfast_queue order by name;

-- name: queue_state
select state from holdfast_queue where name = :name;

-- name: get_route
select queue, requires, affinity, version from holdfast_route where id = :id;

-- name: database_clock
select :now;

-- name: list_jobs
-- A missing filter is null; the cast gives Postgres its type.
select @job from holdfast_job
 where (cast(:state as text) is null or state = :state)
   and (cast(:queue as text) is null or queue = :queue)
   and (cast(:task as text) is null or task = :task)
   and (cast(:tenant as text) is null or tenant = :tenant)
   and (cast(:before as text) is null or id < :before)
 order by id desc
 limit :n;
