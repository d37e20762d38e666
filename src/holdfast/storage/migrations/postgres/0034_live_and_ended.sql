-- A job's row is split by how often it is written. holdfast_job has what the caller gave: no transition writes it.
-- holdfast_live has a narrow row for each job that has not ended, which every transition rewrites. holdfast_ended has a
-- row for each job that has ended, and is only appended to. A job is in exactly one of these two: an update that ends a
-- job in holdfast_live moves its row. holdfast_any_job joins them.

create table holdfast_live (
    id             text collate "C" not null primary key,
    task           text not null,
    queue          text not null check (length(queue) between 1 and 128),
    tenant         text not null,
    route          bigint not null,
    state          text not null,
    -- While ready: 0 due in the future, 1 claimable, 2 parked behind a limit, 3 claimable as a suspect. Otherwise
    -- null, so that each partial index below has only the rows that its readers look for.
    due            smallint,
    priority       integer not null,
    -- The order among jobs of one priority: the due time, or a fairness tag.
    rank           bigint not null,
    not_before     bigint not null,
    -- The reason why it is ready or blocked.
    reason         text,
    lane           text,
    -- Copies, which transitions read without the rest of the job.
    limits         text,
    tags           text,
    flow           text collate "C",
    attempts       integer not null default 0,
    -- The attempts of earlier generations.
    past_attempts  integer not null default 0,
    generation     integer not null default 0,
    -- Grows at every gain and loss of ownership.
    epoch          bigint not null default 0,
    owner          text collate "C",
    claim          text collate "C",
    claimed_at     bigint,
    started_at     bigint,
    -- 1 after its worker was lost once; it then runs isolated from other jobs.
    suspect        smallint not null default 0,
    -- 1 while it runs as its worker's only job: if the worker is lost, this job caused it.
    alone          smallint not null default 0,
    crashes        integer not null default 0,
    losses         integer not null default 0,
    cancel_at      bigint,
    cancel_reason  text,
    -- The key while this job holds it: tenant, scope and key in one.
    dedupe_held    text collate "C",
    deadline       bigint,
    -- Set by the update that ends the job, and null otherwise.
    finished_at    bigint,
    -- The epoch whose owner recorded the last outcome: a repeated finish is recognised by it.
    finished_epoch bigint,
    error          text,
    result         text,
    holds          text,
    linked         smallint not null default 0,
    -- The arguments that replaced those of the job. A claim reads them here, from the row that it has locked: those in
    -- holdfast_job may be newer than the claim's snapshot.
    payload        text,
    check ((state = 'ready') = (due is not null)),
    check ((state = 'running') = (owner is not null)),
    check (state in ('ready', 'blocked', 'running', 'suspended') or finished_at is not null)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 1, autovacuum_analyze_scale_factor = 0.02);

create table holdfast_ended (
    id             text collate "C" not null primary key,
    task           text not null,
    queue          text not null,
    tenant         text not null,
    route          bigint not null,
    state          text not null check (state in ('succeeded', 'failed', 'cancelled', 'expired', 'skipped')),
    priority       integer not null,
    rank           bigint not null,
    not_before     bigint not null,
    -- How it failed, or why it was cancelled.
    reason         text,
    -- Copies, for those that follow the ends of jobs.
    tags           text,
    flow           text collate "C",
    attempts       integer not null,
    past_attempts  integer not null,
    generation     integer not null,
    epoch          bigint not null,
    claimed_at     bigint,
    started_at     bigint,
    suspect        smallint not null,
    crashes        integer not null,
    losses         integer not null,
    cancel_at      bigint,
    cancel_reason  text,
    deadline       bigint,
    finished_at    bigint not null,
    finished_epoch bigint,
    error          text,
    result         text,
    holds          text,
    linked         smallint not null
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

drop view holdfast_jobs;
drop trigger holdfast_job_final on holdfast_job;
drop trigger holdfast_job_told on holdfast_job;
drop trigger holdfast_job_hop on holdfast_job;
drop trigger holdfast_job_again on holdfast_job;
drop trigger holdfast_job_gone on holdfast_job;
drop trigger holdfast_job_route on holdfast_job;
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
alter table holdfast_job
    drop column queue, drop column route, drop column state, drop column due, drop column priority, drop column rank,
    drop column not_before, drop column reason, drop column lane, drop column attempts, drop column past_attempts,
    drop column generation, drop column epoch, drop column owner, drop column claim, drop column claimed_at,
    drop column started_at, drop column suspect, drop column alone, drop column crashes, drop column losses,
    drop column cancel_at, drop column cancel_reason, drop column dedupe_held, drop column deadline,
    drop column finished_at, drop column finished_epoch, drop column error, drop column result, drop column holds,
    drop column linked;
alter table holdfast_job reset (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold,
                                autovacuum_vacuum_cost_delay, autovacuum_analyze_scale_factor);

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
       not_before, coalesce(live.reason, ended.reason) as reason, live.lane, coalesce(live.attempts,
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

-- For people and BI tools: the same rows with real timestamps.
create view holdfast_jobs as
select id, task, queue, tenant, state, reason, priority, attempts, max_attempts, crashes, owner, payload, result, error,
       to_timestamp(created_at / 1e6) as created_at,
       to_timestamp(not_before / 1e6) as not_before,
       to_timestamp(started_at / 1e6) as started_at,
       to_timestamp(finished_at / 1e6) as finished_at,
       created_by, title
  from holdfast_any_job;

-- A backstop: within one generation a terminal state is final.
create or replace function holdfast_refuse_move() returns trigger language plpgsql as $$
begin
    raise exception 'holdfast: a finished job changes only by a retry';
end $$;
create trigger holdfast_ended_final before update of state on holdfast_ended for each row
execute function holdfast_refuse_move();

-- Moves a job that an update has ended.
create function holdfast_move_ended() returns trigger language plpgsql as $$
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
    return null;
end $$;
create trigger holdfast_live_ended after update of finished_at on holdfast_live for each row
when (new.finished_at is not null and old.finished_at is null)
execute function holdfast_move_ended();

create trigger holdfast_live_told after update of state on holdfast_live for each row
when (new.state <> old.state and new.state not in ('running', 'succeeded') and coalesce(new.due, 0) <> 2)
execute function holdfast_tell_job();

-- An end after a retry that is not resolved yet: the flow's count stays.
create or replace function holdfast_note_hop() returns trigger language plpgsql as $$
begin
    insert into holdfast_hop (job_id, at, state, flow)
    values (new.id, new.finished_at, new.state, new.flow)
        on conflict (job_id) do update set at = excluded.at, state = excluded.state, flow = null;
    return null;
end $$;
create trigger holdfast_ended_hop after insert on holdfast_ended for each row when (new.linked = 1)
execute function holdfast_note_hop();

-- A retry after an end that is not resolved yet: neither counts.
create trigger holdfast_live_again after update of finished_at on holdfast_live for each row
when (new.linked = 1 and new.finished_at is null and old.finished_at is not null)
execute function holdfast_note_again();

create trigger holdfast_live_route after update of finished_at on holdfast_live for each row
when (old.finished_at is not null and new.finished_at is null)
execute function holdfast_use_route();

-- Whatever code deletes a job deletes all that belongs to it, in the same commit.
create or replace function holdfast_note_gone() returns trigger language plpgsql as $$
begin
    insert into holdfast_hop (job_id, at, state, flow)
    select gone.id, live.not_before, 'cancelled', gone.flow
      from gone join holdfast_live as live on live.id = gone.id and live.linked = 1
        on conflict (job_id) do update set state = excluded.state, flow = null;
    delete from holdfast_live where id = any(array(select id from gone));
    delete from holdfast_ended where id = any(array(select id from gone));
    return null;
end $$;
create trigger holdfast_job_gone after delete on holdfast_job
referencing old table as gone for each statement
execute function holdfast_note_gone();

-- Locks jobs wherever they are, in one order in every transaction: by id. A job may move while this waits for its row;
-- each statement of a function sees what was committed before it, so that the second look finds it.
create function holdfast_lock_jobs(ids text[]) returns void language plpgsql as $$
declare
    locked text[];
begin
    for turn in 1..5 loop
        locked := array(select id from holdfast_live where id = any(ids) order by id for update);
        locked := locked || array(select id from holdfast_ended where id = any(ids) order by id for update);
        exit when cardinality(locked) >= (select count(*) from holdfast_job where id = any(ids));
    end loop;
end $$;

create function holdfast_lock_job(job_id text)
returns table (state text, tenant text, generation integer, queue text) language plpgsql as $$
begin
    perform holdfast_lock_jobs(array[job_id]);
    return query select job.state, job.tenant, job.generation, job.queue from holdfast_any_job as job where job.id = job_id;
end $$;

create or replace function holdfast_tell_operator() returns trigger language plpgsql as $$
begin
    insert into holdfast_event_inbox (
        at, kind, tenant, job, task, queue, tags, flow, reason, name, source, target)
    select new.at, 'operator', new.tenant,
           coalesce(job.id, case when new.action = 'job.delete' and strpos(new.target, ' ') = 0 then new.target end),
           job.task, job.queue, job.tags, case new.target_kind when 'flow' then new.target else job.flow end,
           new.reason, new.action, new.actor, new.target
      from (select 1) as one left join holdfast_any_job as job on new.target_kind = 'job' and job.id = new.target;
    return null;
end $$;

create or replace function holdfast_tell_signal() returns trigger language plpgsql as $$
begin
    insert into holdfast_event_inbox (at, kind, tenant, job, task, queue, tags, flow, name, source)
    select new.at, 'signal', job.tenant, job.id, job.task, job.queue, job.tags, job.flow, new.name, new.source
      from holdfast_any_job as job left join holdfast_queue as q on q.name = job.queue
     where job.id = new.job_id and coalesce(q.events, 'outcomes') <> 'off';
    return null;
end $$;
