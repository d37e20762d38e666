-- These differ in how a list is passed, and only Postgres has rows to lock.

-- name: lock_job
select state, tenant, generation, queue from holdfast_job where id = :id;

-- name: lock_running
select tenant, generation from holdfast_job
 where id = :id and state = 'running' and owner = :owner and epoch = :epoch;

-- name: lock_waiters
select id, state from holdfast_job where id in (select value from json_each(:ids)) order by id;

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
-- By the index, which holds all of it: the primary key would lead through the payloads of what was read long ago.
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
select id from holdfast_job where id in (select value from json_each(:ids)) and finished_at is null limit 1;
