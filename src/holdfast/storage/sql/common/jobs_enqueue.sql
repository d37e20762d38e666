-- name: dedupe_winner
-- The live job that holds a key. Index: holdfast_live_dedupe.
select live.id, live.state, live.reason, job.dedupe_until, live.attempts
  from holdfast_live as live join holdfast_job as job on job.id = live.id
 where live.dedupe_held = :held;

-- name: dedupe_window_winner
select job_id from holdfast_dedupe where held = :held and expires_at > :now;

-- name: close_dead_window
-- A window ends when its job is deleted: a duplicate would otherwise be given the id of a job that is gone.
delete from holdfast_dedupe
 where held = :held and not exists (select 1 from holdfast_job where id = holdfast_dedupe.job_id);

-- name: job_identity
select task, payload, tenant from holdfast_job where id = :id;

-- name: supersede_job
-- A newer duplicate replaces a job that waits for its retry. For one that a limit holds back, its last run decides:
-- a run that was lost, or that only paused, is no failure.
update holdfast_live
   set state = 'failed', due = null, reason = 'superseded', epoch = epoch + 1, dedupe_held = null, finished_at = :now
 where id = :id and state = 'ready'
   and (reason = 'retry'
        or reason = 'limit'
           and (select run.outcome from holdfast_attempt as run
                 where run.job_id = holdfast_live.id and run.generation = holdfast_live.generation
                   and run.epoch >= coalesce(holdfast_live.finished_epoch, 0)
                 order by run.epoch desc limit 1) in ('failed', 'timeout', 'crashed'))
returning linked;

-- name: replace_payload
update holdfast_job set payload = :payload where id = :id;

-- name: replace_job
-- Debounce: new arguments and due time for a job that has not started. One that an operator or a budget holds stays so.
update holdfast_live
   set payload = :payload, not_before = coalesce(:at, :now + :delay), rank = coalesce(:at, :now + :delay),
       due = case when state = 'blocked' then null when coalesce(:at, :now + :delay) <= :now then 1 else 0 end
 where id = :id and (state = 'ready' or state = 'blocked' and reason in ('operator', 'budget_exhausted')) and started_at is null
returning queue;

-- name: open_dedupe_window
insert into holdfast_dedupe (held, job_id, expires_at)
values (:held, :job_id, :now + :window)
    on conflict (held) do update set job_id = excluded.job_id, expires_at = excluded.expires_at
 where holdfast_dedupe.expires_at <= :now
returning job_id;
