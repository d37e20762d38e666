-- Ids of jobs, newest first. Each statement reads one pool through an index of its own, so that what is asked of one
-- pool does not depend on the size of the others. `before` is a text above every id where there is none.

-- name: find_any
-- Where neither state, queue nor task narrows it, by the primary key.
select job.id from holdfast_job as job
 where job.id < :before and @wanted(job)
 order by job.id desc limit :n;

-- name: find_running
-- As many as workers have slots. Index: holdfast_job_owned.
select job.id from holdfast_job as job
 where job.owner is not null and job.id < :before and @wanted(job)
 order by job.id desc limit :n;

-- name: find_waiting
-- Index: holdfast_job_waiting.
select job.id from holdfast_job as job
 where job.state in ('blocked', 'suspended') and job.id < :before and @wanted(job)
 order by job.id desc limit :n;
