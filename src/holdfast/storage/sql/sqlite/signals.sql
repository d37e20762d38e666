-- These differ in how a list is passed, and only Postgres locks rows.

-- name: forget_refusals
update holdfast_edge set met = null
 where downstream in (select value from json_each(:ids)) and kind = 'flow' and met = 0
   and exists (select 1 from holdfast_job as job where job.id = upstream)
returning downstream;

-- name: forget_waits
delete from holdfast_wait where job_id in (select value from json_each(:ids));

-- name: forget_waitpoints
delete from holdfast_waitpoint where job_id in (select value from json_each(:ids));

-- name: forget_signals
delete from holdfast_signal where job_id in (select value from json_each(:ids));

-- These differ in how a list is passed, and only Postgres has rows to lock.

-- name: lock_job
select state, tenant, generation, queue from holdfast_any_job where id = :id;

-- name: lock_running
select tenant, generation from holdfast_live
 where id = :id and state = 'running' and owner = :owner and epoch = :epoch;

-- name: lock_waiters
select id, state from holdfast_any_job where id in (select value from json_each(:ids)) order by id;

-- name: put_wait
insert into holdfast_wait (job_id, key, condition, timeout_at, wake_at, on_timeout, since)
values (:job_id, :key, :condition, :now + :timeout,
        coalesce(min(:now + :timeout, :hope), :now + :timeout, :hope), :on_timeout, :now)
    on conflict (job_id) do update
   set key = excluded.key, condition = excluded.condition, timeout_at = excluded.timeout_at,
       wake_at = excluded.wake_at, on_timeout = excluded.on_timeout, since = excluded.since;

-- name: drop_orphan_waits
delete from holdfast_wait
 where job_id in (select value from json_each(:ids))
   and not exists (select 1 from holdfast_job as job where job.id = holdfast_wait.job_id);

-- name: answered_waits
select job_id, key from holdfast_step
 where job_id in (select value from json_each(:ids))
   and key in (select value from json_each(:keys));

-- name: unread_signals
-- By the index, which holds all columns read here: the primary key would lead through the payloads of old signals.
select job_id, seq, name, waitpoint, source from holdfast_signal indexed by holdfast_signal_unread
 where job_id in (select value from json_each(:ids)) and taken_by is null
 order by job_id, seq;

-- name: take_signals
update holdfast_signal set taken_by = :key
 where job_id = :job_id and seq in (select value from json_each(:seqs)) and taken_by is null
returning seq, name, waitpoint, payload, source, at;

-- name: gates
select id, expires_at, once, closed_at is not null, name from holdfast_waitpoint
 where id in (select value from json_each(:ids));

-- name: close_waitpoints
update holdfast_waitpoint set closed_at = :now
 where id in (select value from json_each(:ids)) and job_id = :job_id and closed_at is null;

-- name: unfinished_of
select id from holdfast_live where id in (select value from json_each(:ids)) limit 1;

-- name: pending_names
-- Names that suspended jobs wait for. Where one of each is needed, without those that have come.
-- Index: holdfast_wait_named.
select w.job_id, job.task, job.queue, job.tenant, n.value, w.condition ->> '$.schema', w.since, w.timeout_at,
       substr(given.payload, 1, 1000)
  from holdfast_wait as w indexed by holdfast_wait_named
 cross join holdfast_live as job on job.id = w.job_id and job.state = 'suspended'
 cross join holdfast_job as given on given.id = w.job_id
 cross join json_each(w.condition, '$.names') as n
 where instr(w.condition, '"names"') > 0 and w.job_id >= :after and (w.job_id, n.value) > (:after, :name)
   and (w.timeout_at is null or w.timeout_at > :now)
   and (:tenant is null or job.tenant = :tenant)
   and (:job_id is null or w.job_id = :job_id)
   and not (w.condition ->> '$.needed' is 0
            and exists (select 1 from holdfast_signal as s
                         where s.job_id = w.job_id and s.taken_by is null and s.name = n.value))
 order by w.job_id, n.value
 limit :n;
