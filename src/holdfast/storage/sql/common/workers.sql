-- name: get_worker
select id, name, host, pid, process_key, queues, tasks, concurrency, version, state, started_at, beat_at, lease,
       lease_until, lease_until < :now or lease_until > :now + 2 * lease, capabilities, resident, versions
  from holdfast_worker
 where id = :id;

-- name: insert_worker
-- An identity is random: one that exists is this very call, repeated after an unknown outcome.
insert into holdfast_worker (id, name, host, pid, process_key, queues, tasks, concurrency, version, state, started_at,
                             beat_at, lease, lease_until, capabilities, resident, versions, holder)
values (:id, :name, :host, :pid, :process_key, :queues, :tasks, :concurrency, :version, 'alive', :now, :now, :lease,
        :now + :lease, :capabilities, :resident, :versions, :holder)
    on conflict (id) do update set beat_at = excluded.beat_at, lease_until = excluded.lease_until
 where holdfast_worker.state <> 'dead';

-- name: renew_worker
update holdfast_worker set beat_at = :now, lease_until = :now + lease
 where id = :id and state <> 'dead'
returning state;

-- name: stop_worker
update holdfast_worker set state = 'stopping' where id = :id and state = 'alive';

-- name: owned_jobs
-- The jobs that a worker owns. Index: holdfast_live_owned.
select id, epoch, claim, cancel_at from holdfast_live where owner = :owner;

-- name: running_of_workers
-- How many jobs each worker runs, and its few oldest. Index: holdfast_live_owned, read in its order.
select owner, jobs, id
  from (select owner, id, count(*) over (partition by owner) as jobs,
               row_number() over (partition by owner order by claimed_at, id) as place
          from (select owner, id, claimed_at from holdfast_live where owner is not null
                 order by owner limit 1000000) as running) as placed
 where place <= :few
 order by owner, place;

-- name: is_cancelled
-- The epoch is the owner's own: it grows when the job is taken or lost.
select cancel_at is not null from holdfast_live where id = :id and epoch = :epoch and state = 'running';

-- name: delete_worker
-- A worker's row lives until it owns nothing.
delete from holdfast_worker
 where id = :id and not exists (select 1 from holdfast_live where owner = :id)
returning id;

-- name: list_workers
-- A lease that ends later than any could was written before the clock was set back: it has expired, unless renewed.
select id, name, host, pid, process_key, queues, tasks, concurrency, version, state, started_at, beat_at, lease,
       lease_until, lease_until < :now or lease_until > :now + 2 * lease, capabilities, resident, versions
  from holdfast_worker
 order by started_at, id;

-- name: mark_dead
update holdfast_worker set state = 'dead' where id = :id returning id;

-- name: overdue_leases
-- Jobs that a remote worker has run for longer than their timeout allows, past their deadline or after a
-- cancel: no process of ours would stop them. Index: holdfast_live_owned.
select job.id, job.owner, job.epoch,
       case when job.cancel_at <= :now - :grace then 'cancelled'
            when job.deadline <= :now - :grace then 'expired' else 'timeout' end
  from holdfast_worker as worker
  join holdfast_live as job on job.owner = worker.id and job.state = 'running'
  join holdfast_job as given on given.id = job.id
  left join holdfast_queue as queue on queue.name = job.queue
 where worker.process_key = '' and worker.pid = 0
   and (job.cancel_at <= :now - :grace
        or job.deadline <= :now - :grace
        or job.claimed_at + coalesce(given.timeout, queue.timeout) <= :now - :grace)
 order by job.owner, job.id limit :n;

-- name: leaders
select role, holder, until_at - :now from holdfast_leader;

-- name: take_lead
-- A lease that ends later than any could was written before the clock was set back: it excludes no one.
insert into holdfast_leader (role, holder, until_at) values (:role, :holder, :now + :lease)
    on conflict (role) do update set holder = excluded.holder, until_at = excluded.until_at
 where holdfast_leader.holder = excluded.holder
    or holdfast_leader.until_at <= :now
    or holdfast_leader.until_at > :now + 2 * :lease
returning role;

-- name: resign_lead
delete from holdfast_leader where holder = :holder returning role;

-- name: expired_leases
-- Jobs of workers that are dead, have missed their lease, or are gone. Running jobs are read by the index
-- holdfast_live_owned, in its order: in the order of ids, the whole table would be read.
select job.id, job.task, job.queue, job.tenant, job.owner, job.epoch, job.claimed_at, w.lease_until, w.state, :now
  from (select id, task, queue, tenant, owner, epoch, claimed_at
          from holdfast_live where owner is not null order by owner limit 1000000) as job
  left join holdfast_worker as w on w.id = job.owner
 where (w.id is null or w.state = 'dead' or w.lease_until < :now or w.lease_until > :now + 2 * w.lease)
   and job.id > :after
   and (cast(:tenant as text) is null or job.tenant = :tenant)
 order by job.id
 limit :n;
