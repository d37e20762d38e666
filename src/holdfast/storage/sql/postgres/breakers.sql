-- name: get_breakers
-- get_breaker for many. Joined, as in lock_lanes: a list of keys may be compared with every breaker.
select scope, threshold, open_for, failures, opened_at, open_until, trial, trial_epoch, openings, origin, :now,
       (select job.epoch from holdfast_job as job where job.id = b.trial and job.state = 'running') = b.trial_epoch,
       (select job.id from holdfast_job as job where job.due = 2 and job.lane = 'breaker:' || b.scope
         order by job.priority desc, job.rank, job.id limit 1) is not null
  from json_array_elements_text(:scopes::json) as item(wanted)
  join holdfast_breaker as b on b.scope = item.wanted;

-- name: lock_breaker
select scope from holdfast_breaker where scope = :scope for update;

-- name: try_breaker
-- Lanes are locked already: waiting here could deadlock.
select scope from holdfast_breaker where scope = :scope for update skip locked;
