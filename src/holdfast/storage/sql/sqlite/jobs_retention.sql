-- These differ in how a list is passed, and only Postgres has rows that others may have locked.

-- name: lock_prunable
-- Checks again that the end is final: since they were chosen one may have been retried, and a dedupe window that is
-- still open refers to its job, as do a flow that has not ended and a job that waits.
select id, queue, state from holdfast_job
 where id in (select value from json_each(:ids)) and finished_at <= :now - :kept
   and not (dedupe_until is 'window'
            and exists (select 1 from holdfast_dedupe as d
                         where d.held = tenant || char(31) || dedupe_scope || char(31) || dedupe_key
                           and d.job_id = holdfast_job.id and d.expires_at > :now))
   and not (linked = 1
            and (exists (select 1 from holdfast_flow as f where f.id = holdfast_job.flow and f.finished_at is null)
                 or exists (select 1 from holdfast_edge as e join holdfast_job as waiter on waiter.id = e.downstream
                             where e.upstream = holdfast_job.id and e.kind = 'wait' and waiter.finished_at is null)));

-- name: delete_attempts_of
delete from holdfast_attempt where job_id in (select value from json_each(:ids));

-- name: delete_jobs_of
delete from holdfast_job where id in (select value from json_each(:ids)) and finished_at is not null;

-- name: prune_results
update holdfast_job set result = null
 where id in (select value from json_each(:ids)) and state = 'succeeded' and finished_at <= :now - :kept
   and result is not null
   and not (linked = 1
            and (exists (select 1 from holdfast_flow as f where f.id = holdfast_job.flow and f.finished_at is null)
                 or exists (select 1 from holdfast_edge as e join holdfast_job as waiter on waiter.id = e.downstream
                             where e.upstream = holdfast_job.id and e.kind = 'wait' and waiter.finished_at is null)))
returning id;
