-- name: expire_jobs
-- A running job's deadline is enforced by its worker; every other live job ends here.
update holdfast_job
   set state = case when reason = 'no_handler' then 'failed' else 'expired' end, due = null,
       reason = case when reason = 'no_handler' then reason else 'deadline' end,
       epoch = epoch + 1, dedupe_held = null, finished_at = :now
 where rowid in (select rowid from holdfast_job
                  where deadline <= :now and finished_at is null and state <> 'running' order by deadline limit :n)
returning id, linked;
