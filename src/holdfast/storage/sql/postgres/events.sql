-- name: put_events
insert into holdfast_event_inbox (at, body)
select :now, :body
 where coalesce((select events from holdfast_queue where name = :queue), 'outcomes') in ('all', :level);

-- name: inbox_waits
select exists (select 1 from holdfast_event_inbox)::int;

-- name: relay_events
-- The transaction that locks the head numbers the rows, in the order in which they were written: of two events of one
-- job the later was written under the lock that the earlier released, so it has the larger number and never appears
-- without it. No transaction waits for the head: one that finds it locked leaves the work to the other.
with head as materialized (
    select seq from holdfast_event_mark where name = 'head' for update skip locked
), moved as materialized (
    delete from holdfast_event_inbox
     where seq = any(array(select seq from holdfast_event_inbox order by seq limit :n)) and exists (select 1 from head)
    returning *
), numbered as (
    insert into holdfast_event (seq, at, body, kind, tenant, job, task, queue, previous, state, reason, attempt, epoch,
           worker, tags, flow, name, source, target)
    select head.seq + row_number() over (order by moved.seq), at, body, kind, tenant, job, task, queue, previous, state,
           reason, attempt, epoch, worker, tags, flow, name, source, target
      from moved, head
    returning seq
)
update holdfast_event_mark
   set seq = (select max(seq) from numbered)
 where name = 'head' and exists (select 1 from numbered)
returning (select count(*) from numbered);

-- name: make_event_head
insert into holdfast_event_mark (name, seq) select 'head', coalesce(max(seq), 0) from holdfast_event
    on conflict do nothing;

-- name: newest_event
select coalesce((select seq from holdfast_event_mark where name = 'head'), 0);

-- name: hear_new_jobs
-- `insert_job` itself records it.
select 0;

-- name: ignore_new_jobs
select 0;

-- name: tell_copied
-- Copied rows have no events yet.
insert into holdfast_event_inbox (at, kind, tenant, job, task, queue, state, reason, attempt, epoch, tags, flow)
select :now, 'job', job.tenant, job.id, job.task, job.queue, job.state, job.reason, 0, job.epoch, job.tags, job.flow
  from holdfast_any_job as job join holdfast_queue as q on q.name = job.queue and q.events = 'all'
 where job.id = any(array(select json_array_elements_text(:ids::json)))
 order by job.id;

-- name: tell_asked
-- New jobs that request events themselves; those of queues that record all are recorded already.
insert into holdfast_event_inbox (at, kind, tenant, job, task, queue, state, reason, attempt, epoch, tags, flow)
select :now, 'job', tenant, id, task, queue, state, reason, 0, epoch, tags, flow
  from holdfast_any_job as job
 where id = any(array(select json_array_elements_text(:ids::json)))
   and not exists (select 1 from holdfast_queue as q where q.name = job.queue and q.events = 'all')
 order by id;

-- name: tell_stage
-- `name` is the stage, `target` the one before.
insert into holdfast_event_inbox (
    at, kind, tenant, job, task, queue, previous, state, attempt, epoch, worker, tags, flow, name, target)
select :now, 'stage', job.tenant, job.id, job.task, job.queue, 'running', 'running', job.attempts, job.epoch, job.owner,
       job.tags, job.flow, :stage::text, :before::text
  from holdfast_any_job as job
 where job.id = :job_id
   and (strpos(job.tags, '"webhook-on:*"') > 0
        or exists (select 1 from holdfast_queue as q where q.name = job.queue and q.events = 'all'));

-- name: untell_job
-- A job that was inserted and deleted in this transaction. The inbox is short: the relay empties it.
delete from holdfast_event_inbox where job = :id;
