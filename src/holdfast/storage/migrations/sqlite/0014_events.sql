-- The log of what happened: public transitions of jobs, leases, signals, ends of flows, operators' actions.
-- oldest writer: 0009

-- What a queue tells: `off`, `outcomes` or `all`; null is the default, outcomes.
alter table holdfast_queue add column events text;
create index holdfast_queue_loud on holdfast_queue (name) where events = 'all';

-- Writers come one after the other, so a number seen is never followed by a smaller one; and none comes twice, because
-- the newest row is never pruned.
create table holdfast_event (
    seq      integer primary key,
    at       integer not null,
    -- What a transaction tells of many jobs: a JSON array with an array for each. Otherwise null, and the row is one.
    body     text,
    -- job, signal, flow or operator.
    kind     text,
    tenant   text,
    job      text,
    task     text,
    queue    text,
    previous text,
    state    text,
    reason   text,
    attempt  integer,
    epoch    integer,
    worker   text,
    tags     text,
    flow     text,
    -- Of a signal or a flow its name, of an operator the action.
    name     text,
    -- Who sent the signal, or acted.
    source   text,
    -- What an operator acted on.
    target   text
);

-- How far the log was pruned.
create table holdfast_event_mark (
    name text not null primary key,
    seq  integer not null
) without rowid;

-- Starts and successes are told by the batch, in the transaction that makes them; what else becomes of a job is told
-- here, whoever does it. Parking behind a limit is no transition: such a job has not started.
create trigger holdfast_job_told after update of state on holdfast_job
when new.state <> old.state and new.state not in ('running', 'succeeded') and coalesce(new.due, 0) <> 2
begin
    insert into holdfast_event (
        at, kind, tenant, job, task, queue, previous, state, reason, attempt, epoch, worker, tags, flow)
    select coalesce(new.finished_at, cast((julianday('now') - 2440587.5) * 86400000000 as integer)), 'job', new.tenant,
           new.id, new.task, new.queue, old.state, new.state, new.reason, old.attempts, old.epoch, old.owner, new.tags,
           new.flow
      from (select coalesce((select events from holdfast_queue where name = new.queue), 'outcomes') as told)
     where told = 'all' or (told = 'outcomes' and new.finished_at is not null);
end;

create trigger holdfast_signal_told after insert on holdfast_signal
begin
    insert into holdfast_event (at, kind, tenant, job, task, queue, tags, flow, name, source)
    select new.at, 'signal', job.tenant, job.id, job.task, job.queue, job.tags, job.flow, new.name, new.source
      from holdfast_job as job join holdfast_queue as q on q.name = job.queue and q.events = 'all'
     where job.id = new.job_id;
end;

create trigger holdfast_flow_told after update of outcome on holdfast_flow
when new.outcome is not null and old.outcome is null
begin
    insert into holdfast_event (at, kind, tenant, state, flow, name)
    values (new.finished_at, 'flow', new.tenant, new.outcome, new.id, new.name);
end;

create trigger holdfast_audit_told after insert on holdfast_audit
begin
    insert into holdfast_event (at, kind, reason, name, source, target)
    values (new.at, 'operator', new.reason, new.action, new.actor, new.target);
end;
