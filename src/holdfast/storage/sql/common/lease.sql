-- name: expired_leases
-- Jobs in the hands of workers that are dead, silent for longer than their lease, or gone. What runs is read by the index
-- holdfast_job_owned, asked for in its order: by id, the whole table would be.
select job.id, job.task, job.queue, job.tenant, job.owner, job.epoch, job.claimed_at, w.lease_until, w.state, :now
  from (select id, task, queue, tenant, owner, epoch, claimed_at
          from holdfast_job where owner is not null order by owner limit 1000000) as job
  left join holdfast_worker as w on w.id = job.owner
 where (w.id is null or w.state = 'dead' or w.lease_until < :now or w.lease_until > :now + 2 * w.lease)
   and job.id > :after
   and (cast(:tenant as text) is null or job.tenant = :tenant)
 order by job.id
 limit :n;
