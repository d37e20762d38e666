-- name: get_worker
select id, name, host, pid, process_key, queues, tasks, concurrency, version, state, started_at, beat_at, lease,
       lease_until, lease_until < :now or lease_until > :now + 2 * lease, capabilities, resident, versions
  from holdfast_worker
 where id = :id;

-- name: held_jobs
-- The jobs that a worker owns, with the facts on which its next claim depends. Index: holdfast_job_owned.
select id, epoch, generation, attempts, queue, route, alone, cancel_at
  from holdfast_job
 where owner = :owner
 order by id;

-- name: store_id
select value from holdfast_meta where key = 'store_id';

-- name: insert_store_id
-- The first call decides, once and for all.
insert into holdfast_meta (key, value) values ('store_id', :value) on conflict (key) do nothing;

-- name: store_secret
select value from holdfast_meta where key = 'secret';

-- name: insert_store_secret
-- The first call decides, once and for all.
insert into holdfast_meta (key, value) values ('secret', :value) on conflict (key) do nothing;

-- name: holder_of_worker
select holder from holdfast_worker where id = :id;

-- name: last_position
select coalesce(max(position), 0) from holdfast_step where job_id = :job_id;
