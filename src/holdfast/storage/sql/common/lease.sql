-- name: expired_leases
-- Jobs of workers that are dead, have missed their lease, or are gone. Running jobs are read by the index
-- holdfast_job_owned, in its order: in the order of ids, the whole table would be read.
select job.id, job.task, job.queue, job.tenant, job.owner, job.epoch, job.claimed_at, w.lease_until, w.state, :now
  from (select id, task, queue, tenant, owner, epoch, claimed_at
          from holdfast_job where owner is not null order by owner limit 1000000) as job
  left join holdfast_worker as w on w.id = job.owner
 where (w.id is null or w.state = 'dead' or w.lease_until < :now or w.lease_until > :now + 2 * w.lease)
   and job.id > :after
   and (cast(:tenant as text) is null or job.tenant = :tenant)
 order by job.id
 limit :n;
