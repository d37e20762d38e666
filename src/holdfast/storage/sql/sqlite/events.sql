-- name: put_events
-- Differs: writers come one after the other, so the log itself takes what Postgres leaves to the relay.
insert into holdfast_event (at, body)
select :now, :body
 where coalesce((select events from holdfast_queue where name = :queue), 'outcomes') in ('all', :level);

-- name: inbox_waits
-- There is no inbox.
select 0;

-- name: relay_events
select 0 where :n < 0;

-- name: make_event_head
select 0;

-- name: newest_event
-- The newest row is never pruned.
select coalesce(max(seq), 0) from holdfast_event;

-- name: hear_new_jobs
-- Only while a queue records all events: the mere presence of this trigger adds 3 µs to the 17 that a row takes.
create trigger if not exists holdfast_live_added after insert on holdfast_live
when new.finished_at is null and new.queue in (select name from holdfast_queue where events = 'all')
begin
    insert into holdfast_event (at, kind, tenant, job, task, queue, state, reason, attempt, epoch, tags, flow)
    select job.created_at, 'job', new.tenant, new.id, new.task, new.queue, new.state, new.reason, 0, new.epoch, new.tags,
           new.flow
      from holdfast_job as job
     where job.id = new.id;
end;

-- name: ignore_new_jobs
drop trigger if exists holdfast_live_added;

-- name: tell_copied
-- The trigger has recorded it.
select 0 where :ids is null;

-- name: tell_asked
-- New jobs that request events themselves; those of queues that record all are recorded already.
insert into holdfast_event (at, kind, tenant, job, task, queue, state, reason, attempt, epoch, tags, flow)
select :now, 'job', tenant, id, task, queue, state, reason, 0, epoch, tags, flow
  from holdfast_any_job as job
 where id in (select value from json_each(:ids))
   and not exists (select 1 from holdfast_queue as q where q.name = job.queue and q.events = 'all')
 order by id;

-- name: tell_stage
-- `name` is the stage, `target` the one before.
insert into holdfast_event (
    at, kind, tenant, job, task, queue, previous, state, attempt, epoch, worker, tags, flow, name, target)
select :now, 'stage', job.tenant, job.id, job.task, job.queue, 'running', 'running', job.attempts, job.epoch, job.owner,
       job.tags, job.flow, :stage, :before
  from holdfast_any_job as job
 where job.id = :job_id
   and (instr(job.tags, '"webhook-on:*"') > 0
        or exists (select 1 from holdfast_queue as q where q.name = job.queue and q.events = 'all'));

-- name: untell_job
-- Differs: an insert never waits for another transaction here, so no job is taken back.
select 0 where :id is null;
