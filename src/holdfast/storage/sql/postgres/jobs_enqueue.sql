-- name: insert_job
-- One statement for all rows, which come as one document: 26 µs a row, of which 3 on our side of the wire. As 22
-- arrays they took 42 and 22, since psycopg writes arrays in Python; pipelined inserts took longer still.
-- The row in holdfast_live comes first: its keys decide who is new. An id that another transaction stored and ended in
-- the meantime is a unique violation in holdfast_job, and the whole is tried again.
with item as materialized (
    select i.*, coalesce(i.at, :now + i.delay) as starts
      from json_to_recordset(:items::json)
        as i(n int, @given(typed), queue text, route bigint, at bigint, delay bigint, rank bigint,
             deadline_at bigint, deadline bigint, dedupe_scope text, dedupe_key text, dedupe_until text,
             dedupe_held text)
), free as materialized (
    -- As a case, by which the planner expects half of the rows: by three anti-joins it expects one, and joins each row
    -- to each below.
    select * from item
     where case when dedupe_held is not null
                     and exists (select 1 from holdfast_dedupe d where d.held = item.dedupe_held and d.expires_at > :now)
                then false
                when exists (select 1 from holdfast_queue q
                              where q.name = item.queue and q.state in ('draining', 'disabled')) then false
                else (select j.id from holdfast_job j where j.id = item.id) is null end
), fresh as (
    insert into holdfast_live (@copied, queue, route, state, due, rank, not_before, reason, deadline, dedupe_held)
    select @copied, queue, route, 'ready', case when starts <= :now then 1 else 0 end, coalesce(rank, starts), starts,
           case when starts <= :now then 'new' else 'delay' end, coalesce(deadline_at, :now + deadline), dedupe_held
      from free
     order by n
        on conflict do nothing
    returning id, task, queue, tenant, state, reason, tags, dedupe_held
), first as materialized (
    -- Where one id comes twice, the first that holds the stored key made the row.
    select distinct on (free.id) free.*
      from fresh join free on free.id = fresh.id and free.dedupe_held is not distinct from fresh.dedupe_held
     order by free.id, free.n
), stored as (
    insert into holdfast_job (@given, dedupe_scope, dedupe_key, dedupe_until, created_at)
    select @given, dedupe_scope, dedupe_key, dedupe_until, :now from first order by n
), told as (
    insert into holdfast_event_inbox (at, kind, tenant, job, task, queue, state, reason, attempt, epoch, tags)
    select :now, 'job', tenant, id, task, queue, fresh.state, reason, 0, 0, tags
      from fresh join holdfast_queue as q on q.name = fresh.queue and q.events = 'all'
     order by id
)
select n, id from first;

-- name: insert_plain_job
-- Inserts one row without a key, value by value: 0.45 ms with its commit, where a document of one row took 0.65.
with item as (
    select :queue::text as queue, :now as now, coalesce(:at::bigint, :now + :delay::bigint) as starts
), fresh as (
    insert into holdfast_job (@given, created_at)
    select @given(cast), now
      from item
     where not exists (select 1 from holdfast_queue q where q.name = item.queue and q.state in ('draining', 'disabled'))
        on conflict do nothing
    returning id, task, tenant, tags, created_at
), placed as (
    insert into holdfast_live (@copied, queue, route, state, due, rank, not_before, reason, deadline)
    select @copied(cast), queue, :route::bigint, 'ready', case when starts <= now then 1 else 0 end, starts, starts,
           case when starts <= now then 'new' else 'delay' end, coalesce(:deadline_at::bigint, now + :deadline::bigint)
      from item
     where exists (select 1 from fresh)
    returning queue, state, reason
), told as (
    insert into holdfast_event_inbox (at, kind, tenant, job, task, queue, state, reason, attempt, epoch, tags)
    select created_at, 'job', tenant, id, task, queue, state, reason, 0, 0, tags
      from fresh cross join placed
     where exists (select 1 from holdfast_queue q where q.name = placed.queue and q.events = 'all')
)
select 1 from fresh;

-- name: limit_lock_wait
-- A keyed insert waits only briefly for another open transaction on the same key. The previous setting is returned for
-- a transaction that continues afterwards: the caller's own.
with before as materialized (select current_setting('lock_timeout') as setting)
select setting, set_config('lock_timeout', '2000', true) from before;

-- name: copy_jobs
-- Under load 25 µs a row, where `insert_job` took 92 for a thousand: no document to parse, no existing row to search.
copy holdfast_job (@given, created_at)
from stdin;

-- name: copy_live
copy holdfast_live (@copied, queue, route, state, due, rank, not_before, reason, deadline)
from stdin;

-- These differ in how a list is passed.

-- name: note_hooks
insert into holdfast_hook (job_id, hooks)
select job_id, hooks from json_to_recordset(:rows::json) as item(job_id text, hooks text)
    on conflict do nothing;

-- name: hooks_of
select h.job_id, h.hooks, job.state, job.reason, job.result, job.error, job.tenant, job.trace
  from holdfast_hook as h join holdfast_any_job as job on job.id = h.job_id
 where h.job_id = any(array(select json_array_elements_text(:ids::json)))
 order by h.job_id;

-- name: forget_hooks
delete from holdfast_hook where job_id = any(array(select json_array_elements_text(:ids::json)));
