-- These differ in how a list is passed, and only Postgres has rows that others may have locked.

-- name: lock_prunable
-- Checks again that the end is final: since they were chosen one may have been retried, and a dedupe window that is
-- still open refers to its job, as do a flow that has not ended and a job that waits.
select ended.id, ended.queue, ended.state from holdfast_ended as ended join holdfast_job as job on job.id = ended.id
 where ended.id in (select value from json_each(:ids)) and ended.finished_at <= :now - :kept
   and not (job.dedupe_until is 'window'
            and exists (select 1 from holdfast_dedupe as d
                         where d.held = @key(job)
                           and d.job_id = job.id and d.expires_at > :now))
   and not (ended.linked = 1
            and (exists (select 1 from holdfast_flow as f where f.id = job.flow and f.finished_at is null)
                 or exists (select 1 from holdfast_edge as e join holdfast_live as waiter on waiter.id = e.downstream
                             where e.upstream = job.id and e.kind = 'wait')));

-- name: delete_attempts_of
delete from holdfast_attempt where job_id in (select value from json_each(:ids));

-- name: delete_jobs_of
delete from holdfast_job
 where id in (select value from json_each(:ids)) and exists (select 1 from holdfast_ended as ended where ended.id = holdfast_job.id);

-- name: prune_results
update holdfast_ended set result = null
 where id in (select value from json_each(:ids)) and state = 'succeeded' and finished_at <= :now - :kept
   and result is not null
   and not (linked = 1
            and (exists (select 1 from holdfast_flow as f where f.id = (select job.flow from holdfast_job as job where job.id = holdfast_ended.id) and f.finished_at is null)
                 or exists (select 1 from holdfast_edge as e join holdfast_live as waiter on waiter.id = e.downstream
                             where e.upstream = holdfast_ended.id and e.kind = 'wait')))
returning id;
