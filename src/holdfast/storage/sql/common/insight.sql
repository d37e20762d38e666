-- name: get_job
select @job from holdfast_job where id = :id;

-- name: job_attempts
select epoch, generation, attempt, outcome, worker, started_at, ended_at, error
  from holdfast_attempt where job_id = :job_id order by epoch;

-- name: queue_states
select name, state from holdfast_queue order by name;

-- name: queue_state
select state from holdfast_queue where name = :name;

-- name: queue_stands
-- Index: holdfast_job_owned.
select q.state, q.cool_until - :now, q.max_workers,
       (select count(*) from holdfast_job as job where job.owner is not null and job.queue = q.name)
  from holdfast_queue as q where q.name = :name;

-- name: get_route
select queue, requires, affinity, version from holdfast_route where id = :id
union all
select queue, requires, affinity, version from holdfast_grant where route = :id
 limit 1;

-- name: database_clock
select :now;
