-- name: insert_job
-- One statement for all rows, which come as one document: 26 µs a row, of which 3 on our side of the wire. As 22
-- arrays they took 42 and 22, since psycopg writes arrays in Python; pipelined inserts took longer still.
with item as materialized (
    select i.*, coalesce(i.at, :now + i.delay) as starts
      from json_to_recordset(:items::json)
        as i(n int, @given(typed), queue text, route bigint, at bigint, delay bigint, rank bigint, deadline_at bigint,
             deadline bigint, dedupe_scope text, dedupe_key text, dedupe_until text, dedupe_held text)
), free as (
    select * from item
     where (dedupe_held is null
            or not exists (select 1 from holdfast_dedupe d where d.held = item.dedupe_held and d.expires_at > :now))
       and not exists (select 1 from holdfast_queue q where q.name = item.queue and q.state in ('draining', 'disabled'))
), fresh as (
    insert into holdfast_job (
        @given, queue, route, state, due, rank, not_before, reason, deadline,
        dedupe_scope, dedupe_key, dedupe_until, dedupe_held, created_at)
    select @given, queue, route, 'ready', case when starts <= :now then 1 else 0 end, coalesce(rank, starts), starts,
           case when starts <= :now then 'new' else 'delay' end, coalesce(deadline_at, :now + deadline),
           dedupe_scope, dedupe_key, dedupe_until, dedupe_held, :now
      from free
     order by n
        on conflict do nothing
    returning id, task, queue, tenant, state, reason, tags
), told as (
    insert into holdfast_event_inbox (at, kind, tenant, job, task, queue, state, reason, attempt, epoch, tags)
    select :now, 'job', tenant, id, task, queue, fresh.state, reason, 0, 0, tags
      from fresh join holdfast_queue as q on q.name = fresh.queue and q.events = 'all'
     order by id
)
-- Where one id comes twice, the first made the row.
select min(free.n), fresh.id from fresh join free on free.id = fresh.id group by fresh.id;

-- name: insert_plain_job
-- Inserts one row without a key, value by value: 0.45 ms with its commit, where a document of one row took 0.65.
with item as (
    select :queue::text as queue, :now as now, coalesce(:at::bigint, :now + :delay::bigint) as starts
), fresh as (
    insert into holdfast_job (@given, queue, route, state, due, rank, not_before, reason, deadline, created_at)
    select @given(cast), queue, :route::bigint, 'ready', case when starts <= now then 1 else 0 end, starts, starts,
           case when starts <= now then 'new' else 'delay' end,
           coalesce(:deadline_at::bigint, now + :deadline::bigint), now
      from item
     where not exists (select 1 from holdfast_queue q where q.name = item.queue and q.state in ('draining', 'disabled'))
        on conflict do nothing
    returning id, task, queue, tenant, state, reason, tags, created_at
), told as (
    insert into holdfast_event_inbox (at, kind, tenant, job, task, queue, state, reason, attempt, epoch, tags)
    select created_at, 'job', tenant, id, task, queue, state, reason, 0, 0, tags
      from fresh
     where exists (select 1 from holdfast_queue q where q.name = fresh.queue and q.events = 'all')
)
select 1 from fresh;

-- name: limit_lock_wait
-- A keyed insert waits only briefly for another open transaction on the same key. The previous setting is returned for
-- a transaction that continues afterwards: the caller's own.
with before as materialized (select current_setting('lock_timeout') as setting)
select setting, set_config('lock_timeout', '2000', true) from before;

-- name: copy_jobs
-- Under load 25 µs a row, where `insert_job` took 92 for a thousand: no document to parse, no existing row to search.
copy holdfast_job (@given, queue, route, state, due, rank, not_before, reason, deadline, created_at)
from stdin;

-- These differ in how a list is passed.

-- name: note_hooks
insert into holdfast_hook (job_id, hooks)
select job_id, hooks from json_to_recordset(:rows::json) as item(job_id text, hooks text)
    on conflict do nothing;

-- name: hooks_of
select h.job_id, h.hooks, job.state, job.reason, job.result, job.error, job.tenant
  from holdfast_hook as h join holdfast_job as job on job.id = h.job_id
 where h.job_id = any(array(select json_array_elements_text(:ids::json)))
 order by h.job_id;

-- name: forget_hooks
delete from holdfast_hook where job_id = any(array(select json_array_elements_text(:ids::json)));
