-- name: finish_verdict
-- Why a finish changed nothing: it was already recorded, or the job is no longer the caller's.
select state, epoch, finished_epoch from holdfast_any_job where id = :id;

-- name: trim_attempts
-- The newest 32 are kept.
delete from holdfast_attempt
 where job_id = :job_id
   and epoch < (select epoch from holdfast_attempt where job_id = :job_id order by epoch desc limit 1 offset 31);

-- name: overdue_job
-- Index: holdfast_live_deadline.
select id from holdfast_live
 where deadline <= :now and state <> 'running'
 order by deadline limit 1;
