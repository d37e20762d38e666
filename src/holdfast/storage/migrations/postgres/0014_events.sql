-- The log of what happened: public transitions of jobs, leases, signals, ends of flows, operators' actions.
-- oldest writer: 0009

-- What a queue tells: `off`, `outcomes` or `all`; null is the default, outcomes.
alter table holdfast_queue add column events text;
create index holdfast_queue_loud on holdfast_queue (name) where events = 'all';

-- Where transactions leave what they have to tell. Its numbers say in which order that was written, not in which it was
-- committed: nobody but the relay reads here.
create table holdfast_event_inbox (
    seq      bigint generated always as identity primary key,
    at       bigint not null,
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
    attempt  bigint,
    epoch    bigint,
    worker   text,
    tags     text,
    flow     text,
    -- Of a signal or a flow its name, of an operator the action.
    name     text,
    -- Who sent the signal, or acted.
    source   text,
    -- What an operator acted on.
    target   text
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500);

-- The log itself. Whoever moves rows here numbers them under the lock of the head: what commits late comes later.
create table holdfast_event (
    like holdfast_event_inbox,
    primary key (seq)
);

-- The number given last (`head`), and how far the log was pruned (`pruned`).
create table holdfast_event_mark (
    name text not null primary key,
    seq  bigint not null
) with (fillfactor = 50);

-- Starts and successes are told by the batch, in the transaction that makes them; what else becomes of a job is told
-- here, whoever does it. Parking behind a limit is no transition: such a job has not started.
create function holdfast_tell_job() returns trigger language plpgsql as $$
declare
    told text := coalesce((select events from holdfast_queue where name = new.queue), 'outcomes');
begin
    if told = 'all' or (told = 'outcomes' and new.finished_at is not null) then
        insert into holdfast_event_inbox (
            at, kind, tenant, job, task, queue, previous, state, reason, attempt, epoch, worker, tags, flow)
        values (coalesce(new.finished_at, (extract(epoch from statement_timestamp()) * 1000000)::bigint), 'job',
                new.tenant, new.id, new.task, new.queue, old.state, new.state, new.reason, old.attempts, old.epoch,
                old.owner, new.tags, new.flow);
    end if;
    return null;
end $$;
create trigger holdfast_job_told after update of state on holdfast_job for each row
when (new.state <> old.state and new.state not in ('running', 'succeeded') and coalesce(new.due, 0) <> 2)
execute function holdfast_tell_job();

create function holdfast_tell_signal() returns trigger language plpgsql as $$
begin
    insert into holdfast_event_inbox (at, kind, tenant, job, task, queue, tags, flow, name, source)
    select new.at, 'signal', job.tenant, job.id, job.task, job.queue, job.tags, job.flow, new.name, new.source
      from holdfast_job as job join holdfast_queue as q on q.name = job.queue and q.events = 'all'
     where job.id = new.job_id;
    return null;
end $$;
create trigger holdfast_signal_told after insert on holdfast_signal for each row
execute function holdfast_tell_signal();

create function holdfast_tell_flow() returns trigger language plpgsql as $$
begin
    insert into holdfast_event_inbox (at, kind, tenant, state, flow, name)
    values (new.finished_at, 'flow', new.tenant, new.outcome, new.id, new.name);
    return null;
end $$;
create trigger holdfast_flow_told after update of outcome on holdfast_flow for each row
when (new.outcome is not null and old.outcome is null)
execute function holdfast_tell_flow();

create function holdfast_tell_operator() returns trigger language plpgsql as $$
begin
    insert into holdfast_event_inbox (at, kind, reason, name, source, target)
    values (new.at, 'operator', new.reason, new.action, new.actor, new.target);
    return null;
end $$;
create trigger holdfast_audit_told after insert on holdfast_audit for each row
execute function holdfast_tell_operator();
