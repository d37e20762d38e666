-- name: get_breakers
-- get_breaker for many. Differs: each database reads a list in its own way.
select scope, threshold, open_for, failures, opened_at, open_until, trial, trial_epoch, openings, origin, :now,
       (select job.epoch from holdfast_job as job where job.id = b.trial and job.state = 'running') = b.trial_epoch,
       (select job.id from holdfast_job as job where job.due = 2 and job.lane = 'breaker:' || b.scope
         order by job.priority desc, job.rank, job.id limit 1) is not null
  from holdfast_breaker as b
 where scope in (select value from json_each(:scopes));

-- name: lock_breaker
-- The write lock is held; Postgres locks the row.
select scope from holdfast_breaker where scope = :scope;

-- name: try_breaker
-- The same; Postgres does not wait for it.
select scope from holdfast_breaker where scope = :scope;
