-- These differ in how a list is passed, and only here are rows locked: by id, in one order in every transaction.

-- name: forget_refusals
update holdfast_edge set met = null
 where downstream in (select json_array_elements_text(:ids::json)) and kind = 'flow' and met = 0
   and exists (select 1 from holdfast_job as job where job.id = upstream)
returning downstream;

-- name: forget_waits
delete from holdfast_wait where job_id = any(array(select json_array_elements_text(:ids::json)));

-- name: forget_waitpoints
delete from holdfast_waitpoint where job_id = any(array(select json_array_elements_text(:ids::json)));

-- name: forget_signals
delete from holdfast_signal where job_id = any(array(select json_array_elements_text(:ids::json)));

-- These differ in how a list is passed, and only Postgres has rows to lock.

-- name: lock_job
-- What is read is from after the lock was taken: a statement of a function sees what was committed before it.
select state, tenant, generation, queue from holdfast_lock_job(:id);

-- name: lock_running
select tenant, generation from holdfast_live
 where id = :id and state = 'running' and owner = :owner and epoch = :epoch
   for update;

-- name: lock_waiters
-- A row that another transaction has locked is being woken, or ends. A job that has ended waits for nothing.
with locked as materialized (
    select id, state from holdfast_live
     where id = any(array(select json_array_elements_text(:ids::json)))
     order by id
       for update skip locked
)
select id, state from locked
union all
select id, state from holdfast_ended where id = any(array(select json_array_elements_text(:ids::json)))
 order by id;

-- name: put_wait
insert into holdfast_wait (job_id, key, condition, timeout_at, wake_at, on_timeout, since)
select item.job_id, item.key, item.condition, :now + item.timeout, least(:now + item.timeout, item.hope),
       item.on_timeout, :now
  from unnest(:job_id::text[], :key::text[], :condition::text[], :timeout::bigint[], :hope::bigint[],
              :on_timeout::text[])
    as item(job_id, key, condition, timeout, hope, on_timeout)
    on conflict (job_id) do update
   set key = excluded.key, condition = excluded.condition, timeout_at = excluded.timeout_at,
       wake_at = excluded.wake_at, on_timeout = excluded.on_timeout, since = excluded.since
returning 0;

-- name: drop_orphan_waits
delete from holdfast_wait
 where job_id = any(array(select json_array_elements_text(:ids::json)))
   and not exists (select 1 from holdfast_job as job where job.id = holdfast_wait.job_id);

-- name: answered_waits
select job_id, key from holdfast_step
 where job_id = any(array(select json_array_elements_text(:ids::json)))
   and key = any(array(select json_array_elements_text(:keys::json)));

-- name: unread_signals
select job_id, seq, name, waitpoint, source from holdfast_signal
 where job_id = any(array(select json_array_elements_text(:ids::json))) and taken_by is null
 order by job_id, seq;

-- name: take_signals
update holdfast_signal set taken_by = :key
 where job_id = :job_id and seq = any(array(select json_array_elements_text(:seqs::json)::int)) and taken_by is null
returning seq, name, waitpoint, payload, source, at;

-- name: gates
select id, expires_at, once, closed_at is not null, name from holdfast_waitpoint
 where id = any(array(select json_array_elements_text(:ids::json)));

-- name: close_waitpoints
update holdfast_waitpoint set closed_at = :now
 where id = any(array(select json_array_elements_text(:ids::json))) and job_id = :job_id and closed_at is null;

-- name: unfinished_of
select id from holdfast_live where id = any(array(select json_array_elements_text(:ids::json))) limit 1;

-- name: pending_names
-- Names that suspended jobs wait for. Where one of each is needed, without those that have come. Ordered as Python
-- orders text, because the two lists of pending waits are merged there. Index: holdfast_wait_named.
select w.job_id, job.task, job.queue, job.tenant, n.name, w.condition::json ->> 'schema', w.since, w.timeout_at,
       substr(given.payload, 1, 1000)
  from holdfast_wait as w
  join holdfast_live as job on job.id = w.job_id and job.state = 'suspended'
  join holdfast_job as given on given.id = w.job_id
 cross join lateral json_array_elements_text(w.condition::json -> 'names') as n(name)
 where strpos(w.condition, '"names"') > 0 and w.job_id collate "C" >= :after
   and (w.job_id collate "C", n.name collate "C") > (:after, :name)
   and (w.timeout_at is null or w.timeout_at > :now)
   and (:tenant::text is null or job.tenant = :tenant)
   and (:job_id::text is null or w.job_id = :job_id)
   and not (coalesce(w.condition::json ->> 'needed', '1') = '0'
            and exists (select 1 from holdfast_signal as s
                         where s.job_id = w.job_id and s.taken_by is null and s.name = n.name))
 order by w.job_id collate "C", n.name collate "C"
 limit :n;
