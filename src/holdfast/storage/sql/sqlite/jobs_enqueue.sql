-- name: insert_job
-- For many rows at once by `@rows`: parsing a document of rows takes as long as binding them. The write lock is held, so
-- a key that is free stays free. A key that outlives its job is in holdfast_dedupe; any other is in holdfast_live.
-- Checking the queue's state costs less than the noise of a measurement.
insert into holdfast_job (@given, dedupe_scope, dedupe_key, dedupe_until, created_at)
select @given(bound), :dedupe_scope, :dedupe_key, :dedupe_until, :now
  from @rows
 where (:dedupe_held is null
        or not exists (select 1 from holdfast_dedupe where held = :dedupe_held and expires_at > :now)
           and not exists (select 1 from holdfast_live where dedupe_held = :dedupe_held))
   and not exists (select 1 from holdfast_queue where name = :queue and state in ('draining', 'disabled'))
    on conflict do nothing;
-- then: of many rows, only those whose job is new
insert into holdfast_live (@copied, queue, route, state, due, rank, not_before, reason, deadline, dedupe_held)
select @copied(bound), :queue, :route, 'ready',
       case when coalesce(:at, :now + :delay) <= :now then 1 else 0 end,
       coalesce(:rank, :at, :now + :delay), coalesce(:at, :now + :delay),
       case when coalesce(:at, :now + :delay) <= :now then 'new' else 'delay' end,
       coalesce(:deadline_at, :now + :deadline), :dedupe_held
  from @rows
 where exists (select 1 from holdfast_job where id = :id) and not exists (select 1 from holdfast_ended where id = :id)
    on conflict do nothing;

-- name: insert_plain_job
-- Inserts one row without a key. A trigger on holdfast_live records its event.
insert into holdfast_job (@given, created_at)
select @given(bound), :now
 where not exists (select 1 from holdfast_queue where name = :queue and state in ('draining', 'disabled'))
    on conflict do nothing;
-- then:
insert into holdfast_live (@copied, queue, route, state, due, rank, not_before, reason, deadline)
values (@copied(bound), :queue, :route, 'ready',
        case when coalesce(:at, :now + :delay) <= :now then 1 else 0 end,
        coalesce(:at, :now + :delay), coalesce(:at, :now + :delay),
        case when coalesce(:at, :now + :delay) <= :now then 'new' else 'delay' end,
        coalesce(:deadline_at, :now + :deadline));

-- name: limit_lock_wait
-- The write lock is already held; there is nothing to wait for.
select 1;

-- name: copy_jobs
-- There is nothing to decide and no conflict to check for.
insert into holdfast_job (@given, created_at)
select @given(bound), :created_at
  from @rows;

-- name: copy_live
insert into holdfast_live (@copied, queue, route, state, due, rank, not_before, reason, deadline)
select @copied(bound), :queue, :route, :state, :due, :rank, :not_before, :reason, :deadline
  from @rows;

-- These differ in how a list is passed.

-- name: note_hooks
insert into holdfast_hook (job_id, hooks)
select value ->> '$.job_id', value ->> '$.hooks' from json_each(:rows) where true
    on conflict do nothing;

-- name: hooks_of
select h.job_id, h.hooks, job.state, job.reason, job.result, job.error, job.tenant, job.trace
  from holdfast_hook as h join holdfast_any_job as job on job.id = h.job_id
 where h.job_id in (select value from json_each(:ids))
 order by h.job_id;

-- name: forget_hooks
delete from holdfast_hook where job_id in (select value from json_each(:ids));
