-- name: get_job
select @job from holdfast_job where id = :id;

-- name: job_attempts
select epoch, generation, attempt, outcome, worker, started_at, ended_at, error
  from holdfast_attempt where job_id = :job_id order by epoch;

-- name: queue_states
select name, state from holdfast_queue order by name;

-- name: queue_state
select state from holdfast_queue where name = :name;

-- name: get_route
select queue, requires, affinity, version from holdfast_route where id = :id
union all
select queue, requires, affinity, version from holdfast_grant where route = :id
 limit 1;

-- name: database_clock
select :now;
