-- name: overdue_job
-- Index: holdfast_job_deadline.
select id from holdfast_job
 where deadline <= :now and finished_at is null and state <> 'running'
 order by deadline limit 1;
