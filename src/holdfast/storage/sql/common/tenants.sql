-- name: tenant_of_job
select tenant from holdfast_job where id = :id;

-- name: tenant_of_flow
select tenant from holdfast_flow where id = :id;

-- name: count_of_tenant
-- Each of the tenant's rows is read. Index: holdfast_job_tenant.
select queue, case when state = 'ready' and not_before > :now then 'delayed' else state end as label, count(*)
  from holdfast_any_job
 where tenant = :tenant and tenant <> ''
 group by queue, label
 order by queue, label;

-- name: find_of_tenant
-- Where nothing narrows it but the tenant. Index: holdfast_job_tenant.
select job.id from holdfast_any_job as job
 where job.tenant = :tenant and job.tenant <> '' and job.id < :before and @wanted(job)
 order by job.id desc limit :n;

-- name: failures_of_tenant
-- The newest failed runs, with the columns of `page_of_errors`. Index: holdfast_job_tenant.
select a.ended_at, a.job_id, a.epoch, job.task, a.error
  from holdfast_any_job as job
  join holdfast_attempt as a on a.job_id = job.id
 where job.tenant = :tenant and job.tenant <> '' and a.error is not null and a.outcome <> 'throttled'
   and (cast(:task as text) is null or job.task = :task)
   and (cast(:since as bigint) is null or a.ended_at >= :since)
 order by a.ended_at desc, a.job_id, a.epoch
 limit :n;

-- name: lanes_of_tenant
select key, standing, capacity, running, origin
  from holdfast_lane
 where capacity is not null and substr(key, 1, length(:prefix)) = :prefix
 order by key
 limit :n;
