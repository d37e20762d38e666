-- These differ in how a list is passed. Rows that another transaction has locked wait for the next round.

-- name: lock_prunable
-- Checks again that the end is final: since they were chosen one may have been retried, and a dedupe window that is
-- still open refers to its job, as do a flow that has not ended and a job that waits.
select ended.id, ended.queue, ended.state from holdfast_ended as ended join holdfast_job as job on job.id = ended.id
 where ended.id = any(array(select json_array_elements_text(:ids::json))) and ended.finished_at <= :now - :kept
   and not (job.dedupe_until is not distinct from 'window'
            and exists (select 1 from holdfast_dedupe as d
                         where d.held = @key(job)
                           and d.job_id = job.id and d.expires_at > :now))
   and not (ended.linked = 1
            and (exists (select 1 from holdfast_flow as f where f.id = job.flow and f.finished_at is null)
                 or exists (select 1 from holdfast_edge as e join holdfast_live as waiter on waiter.id = e.downstream
                             where e.upstream = job.id and e.kind = 'wait')))
 order by ended.id
   for update of ended skip locked;

-- name: delete_attempts_of
delete from holdfast_attempt where job_id = any(array(select json_array_elements_text(:ids::json)));

-- name: delete_jobs_of
delete from holdfast_job
 where id = any(array(select json_array_elements_text(:ids::json))) 
   and exists (select 1 from holdfast_ended as ended where ended.id = holdfast_job.id);

-- name: prune_results
update holdfast_ended set result = null
 where id = any(array(select ended.id from holdfast_ended as ended join holdfast_job as job on job.id = ended.id
                       where ended.id = any(array(select json_array_elements_text(:ids::json)))
                         and state = 'succeeded' and finished_at <= :now - :kept and result is not null
                         and not (linked = 1
                                  and (exists (select 1 from holdfast_flow as f where f.id = job.flow and f.finished_at is null)
                                       or exists (select 1 from holdfast_edge as e join holdfast_live as waiter on waiter.id = e.downstream
                                                   where e.upstream = job.id and e.kind = 'wait')))
                       order by ended.id
                         for update of ended skip locked))
returning id;
