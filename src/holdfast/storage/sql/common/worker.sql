-- name: insert_worker
-- An identity is random: one that exists is this very call, repeated after an unknown outcome.
insert into holdfast_worker (id, name, host, pid, process_key, queues, tasks, concurrency, version, state, started_at,
                             beat_at, lease, lease_until, capabilities, resident, versions)
values (:id, :name, :host, :pid, :process_key, :queues, :tasks, :concurrency, :version, 'alive', :now, :now, :lease,
        :now + :lease, :capabilities, :resident, :versions)
    on conflict (id) do update set beat_at = excluded.beat_at, lease_until = excluded.lease_until
 where holdfast_worker.state <> 'dead';

-- name: renew_worker
update holdfast_worker set beat_at = :now, lease_until = :now + lease
 where id = :id and state <> 'dead'
returning state;

-- name: stop_worker
update holdfast_worker set state = 'stopping' where id = :id and state = 'alive';

-- name: owned_jobs
-- What the store thinks a worker runs. Index: holdfast_job_owned.
select id, epoch, claim, cancel_at from holdfast_job where owner = :owner;

-- name: delete_worker
-- A worker's row lives until it owns nothing.
delete from holdfast_worker
 where id = :id and not exists (select 1 from holdfast_job where owner = :id)
returning id;

-- name: list_workers
-- A lease that ends later than any could was written before the clock was set back: it is over, unless it is renewed.
select id, name, host, pid, process_key, queues, tasks, concurrency, version, state, started_at, beat_at, lease,
       lease_until, lease_until < :now or lease_until > :now + 2 * lease, capabilities, resident, versions
  from holdfast_worker
 order by started_at, id;

-- name: mark_dead
update holdfast_worker set state = 'dead' where id = :id returning id;
