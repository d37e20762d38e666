-- These differ in how a list is passed.

-- name: note_hooks
insert into holdfast_hook (job_id, hooks)
select job_id, hooks from json_to_recordset(:rows::json) as item(job_id text, hooks text)
    on conflict do nothing;

-- name: hooks_of
select h.job_id, h.hooks, job.state, job.reason, job.result, job.error, job.tenant
  from holdfast_hook as h join holdfast_job as job on job.id = h.job_id
 where h.job_id = any(array(select json_array_elements_text(:ids::json)))
 order by h.job_id;

-- name: forget_hooks
delete from holdfast_hook where job_id = any(array(select json_array_elements_text(:ids::json)));
