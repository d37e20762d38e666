-- These differ in how a list is passed.

-- name: note_hooks
insert into holdfast_hook (job_id, hooks)
select value ->> '$.job_id', value ->> '$.hooks' from json_each(:rows) where true
    on conflict do nothing;

-- name: hooks_of
select h.job_id, h.hooks, job.state, job.reason, job.result, job.error, job.tenant
  from holdfast_hook as h join holdfast_job as job on job.id = h.job_id
 where h.job_id in (select value from json_each(:ids))
 order by h.job_id;

-- name: forget_hooks
delete from holdfast_hook where job_id in (select value from json_each(:ids));
