-- A job's row is split by how often it is written. holdfast_job has what the caller gave: no transition writes it.
-- holdfast_live has a narrow row for each job that has not ended, which every transition rewrites. holdfast_ended has a
-- row for each job that has ended, and is only appended to. A job is in exactly one of these two: an update that ends a
-- job in holdfast_live moves its row. holdfast_any_job joins them.

create table holdfast_live (
    id             text not null primary key,
    task           text not null,
    queue          text not null check (length(queue) between 1 and 128),
    tenant         text not null,
    route          integer not null,
    state          text not null,
    -- While ready: 0 due in the future, 1 claimable, 2 parked behind a limit, 3 claimable as a suspect. Otherwise
    -- null, so that each partial index below has only the rows that its readers look for.
    due            integer,
    priority       integer not null,
    -- The order among jobs of one priority: the due time, or a fairness tag.
    rank           integer not null,
    not_before     integer not null,
    -- The reason why it is ready or blocked. While it runs, that of before: holdfast_any_job hides it.
    reason         text,
    lane           text,
    -- Copies, which transitions read without the rest of the job.
    limits         text,
    tags           text,
    flow           text,
    attempts       integer not null default 0,
    -- The attempts of earlier generations.
    past_attempts  integer not null default 0,
    generation     integer not null default 0,
    -- Grows at every gain and loss of ownership.
    epoch          integer not null default 0,
    owner          text,
    claim          text,
    claimed_at     integer,
    started_at     integer,
    -- 1 after its worker was lost once; it then runs isolated from other jobs.
    suspect        integer not null default 0,
    -- 1 while it runs as its worker's only job: if the worker is lost, this job caused it.
    alone          integer not null default 0,
    crashes        integer not null default 0,
    losses         integer not null default 0,
    cancel_at      integer,
    cancel_reason  text,
    -- The key while this job holds it: tenant, scope and key in one.
    dedupe_held    text,
    deadline       integer,
    -- Set by the update that ends the job, and null otherwise.
    finished_at    integer,
    -- The epoch whose owner recorded the last outcome: a repeated finish is recognised by it.
    finished_epoch integer,
    error          text,
    result         text,
    holds          text,
    linked         integer not null default 0,
    -- The arguments that replaced those of the job. A claim reads them here, from the row that it has locked: those in
    -- holdfast_job may be newer than the claim's snapshot.
    payload        text,
    check ((state = 'ready') = (due is not null)),
    check ((state = 'running') = (owner is not null)),
    -- By `or`: for `in`, SQLite builds a table at each statement, 1.3 of the 5.6 µs of an insert.
    check (state = 'ready' or state = 'running' or state = 'blocked' or state = 'suspended' or finished_at is not null)
) without rowid;

create table holdfast_ended (
    id             text not null primary key,
    task           text not null,
    queue          text not null,
    tenant         text not null,
    route          integer not null,
    state          text not null check (state in ('succeeded', 'failed', 'cancelled', 'expired', 'skipped')),
    priority       integer not null,
    rank           integer not null,
    not_before     integer not null,
    -- How it failed, or why it was cancelled.
    reason         text,
    -- Copies, for those that follow the ends of jobs.
    tags           text,
    flow           text,
    attempts       integer not null,
    past_attempts  integer not null,
    generation     integer not null,
    epoch          integer not null,
    claimed_at     integer,
    started_at     integer,
    suspect        integer not null,
    crashes        integer not null,
    losses         integer not null,
    cancel_at      integer,
    cancel_reason  text,
    deadline       integer,
    finished_at    integer not null,
    finished_epoch integer,
    error          text,
    result         text,
    holds          text,
    linked         integer not null
);

insert into holdfast_live (
    id, task, queue, tenant, route, state, due, priority, rank, not_before, reason, lane, limits, tags, flow,
    attempts, past_attempts, generation, epoch, owner, claim, claimed_at, started_at, suspect, alone, crashes, losses,
    cancel_at, cancel_reason, dedupe_held, deadline, finished_at, finished_epoch, error, result, holds, linked)
select id, task, queue, tenant, route, state, due, priority, rank, not_before, reason, lane, limits, tags, flow,
       attempts, past_attempts, generation, epoch, owner, claim, claimed_at, started_at, suspect, alone, crashes,
       losses, cancel_at, cancel_reason, dedupe_held, deadline, finished_at, finished_epoch, error, result, holds,
       linked
  from holdfast_job
 where finished_at is null;

insert into holdfast_ended (
    id, task, queue, tenant, route, state, priority, rank, not_before, reason, tags, flow, attempts,
    past_attempts, generation, epoch, claimed_at, started_at, suspect, crashes, losses, cancel_at, cancel_reason, deadline, finished_at,
    finished_epoch, error, result, holds, linked)
select id, task, queue, tenant, route, state, priority, rank, not_before, reason, tags, flow, attempts,
       past_attempts, generation, epoch, claimed_at, started_at, suspect, crashes, losses, cancel_at, cancel_reason, deadline,
       finished_at, finished_epoch, error, result, holds, linked
  from holdfast_job
 where finished_at is not null
 order by finished_at;

-- Copied and not renamed: a rename fails where any view of the file is broken, also one that is not ours.
create table holdfast_old_attempt as select * from holdfast_attempt;
create table holdfast_old_job as
select id, task, tenant, payload, tags, trace, max_attempts, retry, timeout, limits, dedupe_scope, dedupe_key,
       dedupe_until, created_at, created_by, title, flow, member, inputs from holdfast_job;
drop trigger holdfast_audit_told;
drop trigger holdfast_signal_told;
drop index holdfast_job_blocked;
drop index holdfast_job_deadline;
drop index holdfast_job_dedupe;
drop index holdfast_job_ended;
drop index holdfast_job_failed;
drop index holdfast_job_history;
drop index holdfast_job_later;
drop index holdfast_job_owned;
drop index holdfast_job_parked;
drop index holdfast_job_queued;
drop index holdfast_job_ready;
drop index holdfast_job_suspect;
drop index holdfast_job_unsuccessful;
drop index holdfast_job_waiting;
drop table holdfast_attempt;
drop table holdfast_job;

create table holdfast_job (
    id             text not null primary key check (length(id) between 1 and 128),
    task           text not null check (length(task) between 1 and 128),
    tenant         text not null default '',
    payload        text not null,
    tags           text,
    trace          text,
    -- 0 is without limit.
    max_attempts   integer not null,
    retry          text,
    timeout        integer,
    limits         text,
    dedupe_scope   text,
    dedupe_key     text,
    dedupe_until   text,
    created_at     integer not null,
    created_by     text,
    title          text,
    flow           text,
    member         text,
    inputs         text
);
insert into holdfast_job (
    id, task, tenant, payload, tags, trace, max_attempts, retry, timeout, limits, dedupe_scope, dedupe_key,
    dedupe_until, created_at, created_by, title, flow, member, inputs)
select id, task, tenant, payload, tags, trace, max_attempts, retry, timeout, limits, dedupe_scope, dedupe_key,
       dedupe_until, created_at, created_by, title, flow, member, inputs from holdfast_old_job order by id;
drop table holdfast_old_job;
create unique index holdfast_job_member on holdfast_job (flow, member) where flow is not null;
create index holdfast_job_tenant on holdfast_job (tenant, id) where tenant <> '';

create table holdfast_attempt (
    job_id     text not null references holdfast_job (id) on delete cascade,
    epoch      integer not null,
    generation integer not null,
    attempt    integer not null,
    outcome    text not null,
    worker     text,
    started_at integer,
    ended_at   integer not null,
    error      text,
    primary key (job_id, epoch)
) without rowid;
insert into holdfast_attempt (job_id, epoch, generation, attempt, outcome, worker, started_at, ended_at, error)
select job_id, epoch, generation, attempt, outcome, worker, started_at, ended_at, error from holdfast_old_attempt;
drop table holdfast_old_attempt;
create index holdfast_attempt_ended on holdfast_attempt (ended_at, job_id, epoch);

create index holdfast_live_ready on holdfast_live (route, priority desc, rank, id) where due = 1;
create index holdfast_live_suspect on holdfast_live (route, priority desc, rank, id) where due = 3;
create index holdfast_live_later on holdfast_live (not_before) where due = 0;
create index holdfast_live_parked on holdfast_live (lane, priority desc, rank, id) where due = 2;
create index holdfast_live_owned on holdfast_live (owner) where owner is not null;
create index holdfast_live_queued on holdfast_live (queue, id, not_before) where due is not null;
create index holdfast_live_waiting on holdfast_live (id) where state in ('blocked', 'suspended');
create index holdfast_live_blocked on holdfast_live (queue, id) where state = 'blocked';
create index holdfast_live_deadline on holdfast_live (deadline) where deadline is not null;
create unique index holdfast_live_dedupe on holdfast_live (dedupe_held) where dedupe_held is not null;
create index holdfast_ended_time on holdfast_ended (finished_at, queue, state);
create index holdfast_ended_task on holdfast_ended (task, queue, id);
create index holdfast_ended_unsuccessful on holdfast_ended (state, queue, id, task) where state <> 'succeeded';

create view holdfast_any_job as
select job.id, job.task, job.tenant, coalesce(live.queue, ended.queue) as queue, coalesce(live.route, ended.route) as
       route, coalesce(live.state, ended.state) as state, live.due, coalesce(live.priority, ended.priority) as
       priority, coalesce(live.rank, ended.rank) as rank, coalesce(live.not_before, ended.not_before) as
       not_before, case when live.owner is null
       then coalesce(live.reason, ended.reason) end as reason, live.lane, coalesce(live.attempts,
       ended.attempts) as attempts, coalesce(live.past_attempts, ended.past_attempts) as past_attempts,
       coalesce(live.generation, ended.generation) as generation, coalesce(live.epoch, ended.epoch) as epoch,
       live.owner, live.claim, coalesce(live.claimed_at, ended.claimed_at) as claimed_at,
       coalesce(live.started_at, ended.started_at) as started_at, coalesce(live.suspect, ended.suspect) as
       suspect, coalesce(live.alone, 0) as alone, coalesce(live.crashes, ended.crashes) as crashes, coalesce(live.losses,
       ended.losses) as losses, coalesce(live.cancel_at, ended.cancel_at) as cancel_at,
       coalesce(live.cancel_reason, ended.cancel_reason) as cancel_reason, live.dedupe_held,
       coalesce(live.deadline, ended.deadline) as deadline, coalesce(live.finished_at, ended.finished_at) as
       finished_at, coalesce(live.finished_epoch, ended.finished_epoch) as finished_epoch, coalesce(live.error,
       ended.error) as error, coalesce(live.result, ended.result) as result, coalesce(live.holds, ended.holds)
       as holds, coalesce(live.linked, ended.linked) as linked, job.payload, job.tags, job.trace,
       job.max_attempts, job.retry, job.timeout, job.limits, job.dedupe_scope, job.dedupe_key,
       job.dedupe_until, job.created_at, job.created_by, job.title, job.flow, job.member, job.inputs
  from holdfast_job as job
  left join holdfast_live as live on live.id = job.id
  left join holdfast_ended as ended on ended.id = job.id;

-- A backstop: within one generation a terminal state is final.
create trigger holdfast_ended_final before update of state on holdfast_ended
begin
    select raise(abort, 'holdfast: a finished job changes only by a retry');
end;

-- Moves a job that an update has ended.
create trigger holdfast_live_ended after update of finished_at on holdfast_live
when new.finished_at is not null and old.finished_at is null
begin
    insert into holdfast_ended (
        id, task, queue, tenant, route, state, priority, rank, not_before, reason, tags, flow, attempts,
        past_attempts, generation, epoch, claimed_at, started_at, suspect, crashes, losses, cancel_at, cancel_reason,
        deadline, finished_at, finished_epoch, error, result, holds, linked)
    values (new.id, new.task, new.queue, new.tenant, new.route, new.state, new.priority, new.rank, new.not_before,
        new.reason, new.tags, new.flow, new.attempts, new.past_attempts, new.generation, new.epoch, new.claimed_at,
        new.started_at, new.suspect, new.crashes, new.losses, new.cancel_at, new.cancel_reason, new.deadline,
        new.finished_at, new.finished_epoch, new.error, new.result, new.holds, new.linked);
    delete from holdfast_live where id = new.id;
end;

-- Whatever changes the state sets a reason, except for a claim: to find that a trigger has nothing to do takes a tenth of
-- it.
create trigger holdfast_live_told after update of reason on holdfast_live
when new.state <> old.state and new.state not in ('running', 'succeeded') and coalesce(new.due, 0) <> 2
begin
    insert into holdfast_event (
        at, kind, tenant, job, task, queue, previous, state, reason, attempt, epoch, worker, tags, flow)
    select coalesce(new.finished_at, cast((julianday('now') - 2440587.5) * 86400000000 as integer)), 'job', new.tenant,
           new.id, new.task, new.queue, old.state, new.state, new.reason, old.attempts, old.epoch, old.owner, new.tags,
           new.flow
      from (select coalesce((select events from holdfast_queue where name = new.queue), 'outcomes') as told)
     where told = 'all' or instr(new.tags, '"webhook-on:*"') > 0
        or (new.finished_at is not null and (told = 'outcomes' or instr(new.tags, '"webhook:') > 0));
end;

-- An end after a retry that is not resolved yet: the flow's count stays.
create trigger holdfast_ended_hop after insert on holdfast_ended when new.linked = 1
begin
    insert into holdfast_hop (job_id, at, state, flow)
    values (new.id, new.finished_at, new.state, new.flow)
        on conflict (job_id) do update set at = excluded.at, state = excluded.state, flow = null;
end;

-- A retry after an end that is not resolved yet: neither counts.
create trigger holdfast_live_again after update of finished_at on holdfast_live
when new.linked = 1 and new.finished_at is null and old.finished_at is not null
begin
    insert into holdfast_hop (job_id, at, state, flow)
    select new.id, new.not_before, 'replayed', new.flow
     where not exists (select 1 from holdfast_hop where job_id = new.id);
    delete from holdfast_hop where job_id = new.id and state <> 'replayed';
end;

create trigger holdfast_live_route after update of finished_at on holdfast_live
when old.finished_at is not null and new.finished_at is null
begin
    update holdfast_route set idle_since = null where id = new.route and idle_since is not null;
end;

-- Whatever code deletes a job deletes all that belongs to it, in the same commit.
create trigger holdfast_job_gone before delete on holdfast_job
begin
    insert into holdfast_hop (job_id, at, state, flow)
    select old.id, live.not_before, 'cancelled', old.flow
      from holdfast_live as live
     where live.id = old.id and live.linked = 1
        on conflict (job_id) do update set state = excluded.state, flow = null;
    delete from holdfast_live where id = old.id;
    delete from holdfast_ended where id = old.id;
end;
create trigger holdfast_job_artifacts after delete on holdfast_job
begin
    delete from holdfast_artifact where job_id = old.id;
end;
create trigger holdfast_job_values after delete on holdfast_job
begin
    delete from holdfast_value where job_id = old.id;
end;

create trigger holdfast_audit_told after insert on holdfast_audit
begin
    insert into holdfast_event (
        at, kind, tenant, job, task, queue, tags, flow, reason, name, source, target)
    select new.at, 'operator', new.tenant,
           coalesce(job.id, case when new.action = 'job.delete' and instr(new.target, ' ') = 0 then new.target end),
           job.task, coalesce(live.queue, ended.queue), job.tags,
           case new.target_kind when 'flow' then new.target else job.flow end,
           new.reason, new.action, new.actor, new.target
      from (select 1)
      left join holdfast_job as job on new.target_kind = 'job' and job.id = new.target
      left join holdfast_live as live on live.id = job.id
      left join holdfast_ended as ended on ended.id = job.id;
end;

create trigger holdfast_signal_told after insert on holdfast_signal
begin
    insert into holdfast_event (at, kind, tenant, job, task, queue, tags, flow, name, source)
    select new.at, 'signal', job.tenant, job.id, job.task, job.queue, job.tags, job.flow, new.name, new.source
      from holdfast_any_job as job left join holdfast_queue as q on q.name = job.queue
     where job.id = new.job_id and coalesce(q.events, 'outcomes') <> 'off';
end;
