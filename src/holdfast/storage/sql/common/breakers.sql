-- name: ensure_breaker
insert into holdfast_breaker (scope, threshold, open_for, origin) values (:scope, :threshold, :open_for, :origin)
    on conflict (scope) do update
   set threshold = excluded.threshold, open_for = excluded.open_for, origin = excluded.origin
 where (holdfast_breaker.origin = 'code' or excluded.origin = 'operator')
   and (holdfast_breaker.threshold <> excluded.threshold or holdfast_breaker.open_for <> excluded.open_for
        or holdfast_breaker.origin <> excluded.origin);

-- name: inherit_breaker
insert into holdfast_breaker (scope, threshold, open_for, origin)
select :scope, threshold, open_for, 'code' from holdfast_breaker where scope = :followed
    on conflict (scope) do nothing;

-- name: get_breaker
-- A trial counts while its run lasts, however that ends. Without `exists`: Postgres may answer many of those by reading
-- the whole table once. Indexes: holdfast_job's own, holdfast_job_parked.
select scope, threshold, open_for, failures, opened_at, open_until, trial, trial_epoch, openings, origin, :now,
       (select job.epoch from holdfast_job as job where job.id = b.trial and job.state = 'running') = b.trial_epoch,
       (select job.id from holdfast_job as job where job.due = 2 and job.lane = 'breaker:' || b.scope
         order by job.priority desc, job.rank, job.id limit 1) is not null
  from holdfast_breaker as b
 where scope = :scope;

-- name: list_breakers
select scope, threshold, open_for, failures, opened_at, open_until, trial, trial_epoch, openings, origin, :now,
       (select job.epoch from holdfast_job as job where job.id = b.trial and job.state = 'running') = b.trial_epoch,
       (select job.id from holdfast_job as job where job.due = 2 and job.lane = 'breaker:' || b.scope
         order by job.priority desc, job.rank, job.id limit 1) is not null
  from holdfast_breaker as b
 order by scope;

-- name: restless_breakers
-- Those that are not closed, or that jobs wait for. Index: holdfast_job_parked.
select scope, threshold, open_for, failures, opened_at, open_until, trial, trial_epoch, openings, origin, :now,
       (select job.epoch from holdfast_job as job where job.id = b.trial and job.state = 'running') = b.trial_epoch,
       (select job.id from holdfast_job as job where job.due = 2 and job.lane = 'breaker:' || b.scope
         order by job.priority desc, job.rank, job.id limit 1) is not null
  from holdfast_breaker as b
 where open_until is not null
    or (select job.id from holdfast_job as job where job.due = 2 and job.lane = 'breaker:' || b.scope
         order by job.priority desc, job.rank, job.id limit 1) is not null
 order by scope;

-- name: write_breaker
update holdfast_breaker
   set failures = :failures, opened_at = :opened_at, open_until = :open_until, trial = :trial, trial_epoch = :epoch,
       openings = :openings
 where scope = :scope;

-- name: begin_trial
update holdfast_breaker set trial = :trial, trial_epoch = :epoch where scope = :scope and open_until is not null;

-- name: delete_breaker
delete from holdfast_breaker where scope = :scope returning scope;
