-- Every write here is made under the lock of its job's row.

-- name: get_wait
select key, condition, timeout_at, on_timeout, since from holdfast_wait where job_id = :job_id;

-- name: next_wake
-- Microseconds until the first wait must be checked. Index: holdfast_wait_timeout.
select wake_at - :now from holdfast_wait where wake_at is not null order by wake_at limit 1;

-- name: due_waits
select job_id from holdfast_wait where wake_at <= :now order by wake_at limit :n;

-- name: set_wake
update holdfast_wait set wake_at = :wake_at where job_id = :job_id;

-- name: drop_wait
delete from holdfast_wait where job_id = :job_id;

-- name: drop_wait_edges
delete from holdfast_edge where downstream = :job_id and kind = 'wait';

-- name: drop_wait_join
delete from holdfast_join where job_id = :job_id and kind = 'wait';

-- name: resume_job
update holdfast_live
   set state = 'ready', due = case when :delay > 0 then 0 when suspect = 1 then 3 else 1 end, reason = 'resumed',
       not_before = :now + :delay, rank = :now + :delay
 where id = :id and state = 'suspended'
returning queue;

-- name: give_up_job
-- Its wait timed out.
update holdfast_live
   set state = :state, due = null, reason = :reason, error = coalesce(cast(:error as text), error),
       cancel_at = case when :state = 'cancelled' then :now else cancel_at end,
       cancel_reason = case when :state = 'cancelled' then :reason else cancel_reason end,
       epoch = epoch + 1, dedupe_held = null, finished_at = :now
 where id = :id and state = 'suspended'
returning queue, linked;

-- name: escalate_job
update holdfast_live set reason = 'escalated' where id = :id and state = 'suspended' returning id;

-- name: escalate_wait
update holdfast_wait set timeout_at = null, wake_at = null where job_id = :job_id;

-- name: get_answer
select value from holdfast_step where job_id = :job_id and key = :key;

-- name: insert_answer
-- Once written a step never changes.
insert into holdfast_step (job_id, key, position, kind, name, called, value, attempts, epoch, started_at, ended_at)
select job.id, :key,
       coalesce(cast(:position as integer),
                (select max(position) from holdfast_step where job_id = :job_id) + 1, 1),
       :kind, :name, :called, :value, 1, job.epoch, coalesce(cast(:since as bigint), :now), :now
  from holdfast_any_job as job where job.id = :job_id
    on conflict (job_id, key) do nothing;

-- name: insert_signal
insert into holdfast_signal (job_id, seq, name, waitpoint, payload, source, idem_key, at)
select :job_id, before.seq + 1, :name, :waitpoint, :payload, :source, :idem_key, :now
  from (select coalesce(max(seq), 0) as seq from holdfast_signal where job_id = :job_id) as before
 where before.seq < :most
returning seq;

-- name: signal_by_key
select seq, name, waitpoint, payload from holdfast_signal where job_id = :job_id and idem_key = :idem_key;

-- name: signals_of
-- The mailbox, newest first, without payloads.
select seq, name, waitpoint, source, at, taken_by from holdfast_signal
 where job_id = :job_id and seq < :before order by seq desc limit :n;

-- name: insert_waitpoint
insert into holdfast_waitpoint (id, job_id, key, name, kid, schema, expires_at, created_at, generation, once)
values (:id, :job_id, :key, :name, :kid, :schema, :now + :expires, :now, :generation, :once)
returning expires_at;

-- name: waitpoint_of_step
select id from holdfast_waitpoint where job_id = :job_id and key = :key;

-- name: count_waitpoints
select count(*) from holdfast_waitpoint where job_id = :job_id;

-- name: reopen_waitpoint
-- For a new generation of its job, unless its signal has come and counts; tokens of the earlier one stay invalid.
update holdfast_waitpoint
   set kid = :kid, expires_at = :now + :expires, generation = :generation,
       closed_at = case when once = 1 and exists (
               select 1 from holdfast_signal as s
                where s.job_id = holdfast_waitpoint.job_id and s.waitpoint = holdfast_waitpoint.id
                  and (s.taken_by is null
                       or exists (select 1 from holdfast_step as t where t.job_id = s.job_id and t.key = s.taken_by)))
           then closed_at end
 where id = :id
returning expires_at;

-- name: get_waitpoint
select w.job_id, w.name, w.kid, w.schema, w.expires_at, w.closed_at, w.generation, w.once,
       job.tenant, job.generation, job.finished_at, :now
  from holdfast_waitpoint as w
  join holdfast_any_job as job on job.id = w.job_id
 where w.id = :id;

-- name: open_waitpoint_named
-- The oldest of that name.
select id, schema, once from holdfast_waitpoint
 where job_id = :job_id and name = :name and generation = :generation and closed_at is null and expires_at > :now
 order by id
 limit 1;

-- name: close_waitpoint
update holdfast_waitpoint set closed_at = :now where id = :id and closed_at is null;

-- name: describe_waitpoint
update holdfast_waitpoint set schema = :schema where id = :id and job_id = :job_id and schema is null;

-- name: note_refusals
update holdfast_waitpoint set refusals = refusals + :n, refused_at = :now where id = :id;

-- name: count_refusals
-- Writes whether or not the token named a waitpoint: the time of a commit must not reveal it.
insert into holdfast_meta (key, value) values ('tokens_refused', cast(cast(:n as bigint) as text))
    on conflict (key) do update set value = cast(cast(holdfast_meta.value as bigint) + :n as text);

-- name: refusals
select value from holdfast_meta where key = 'tokens_refused';

-- name: pending_waitpoints
-- Of jobs that have not ended since they opened them. Index: holdfast_waitpoint_open.
select w.id, w.job_id, job.task, job.queue, job.tenant, w.name, w.kid, w.schema, w.created_at, w.expires_at,
       w.refusals, w.refused_at, job.state, substr(given.payload, 1, 1000)
  from holdfast_waitpoint as w
  join holdfast_live as job on job.id = w.job_id and job.generation = w.generation
  join holdfast_job as given on given.id = w.job_id
 where w.closed_at is null and w.expires_at > :now and w.id > :after
   and (cast(:tenant as text) is null or job.tenant = :tenant)
   and (cast(:job_id as text) is null or w.job_id = :job_id)
 order by w.id
 limit :n;

-- name: active_key
select kid, secret from holdfast_key where state = 'active';

-- name: get_key
select secret, state, valid_until, :now from holdfast_key where kid = :kid;

-- name: list_keys
select kid, state, created_at, valid_until, secret from holdfast_key order by created_at, kid;

-- name: insert_key
insert into holdfast_key (kid, secret, state, created_at) values (:kid, :secret, 'active', :now)
    on conflict do nothing
returning kid;

-- name: retire_key
-- It verifies for the longer of the grace and the longest token that it signed.
update holdfast_key
   set state = 'retired', valid_until = case when longest > :now + :grace then longest else :now + :grace end
 where state = 'active'
returning kid, valid_until;

-- name: revoke_key
update holdfast_key set state = 'revoked', valid_until = :now where kid = :kid and state = 'retired' returning kid;

-- name: note_longest
-- In steps of an hour, so that not every token writes here. Also for one that was retired since it was read.
update holdfast_key
   set longest = :exp + 3600000000,
       valid_until = case when valid_until < :exp + 3600000000 then :exp + 3600000000 else valid_until end
 where kid = :kid and longest < :exp and state <> 'revoked';
