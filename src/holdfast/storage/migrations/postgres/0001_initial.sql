-- The first schema. Instants and durations are bigint microseconds; JSON is text that the database never inspects.

-- One row per job.
create table holdfast_job (
    id             text collate "C" not null primary key check (length(id) between 1 and 128),
    task           text not null check (length(task) between 1 and 128),
    queue          text not null check (length(queue) between 1 and 128),
    route          bigint not null,
    tenant         text not null default '',
    state          text not null check (state in ('ready', 'blocked', 'running', 'suspended',
                                                  'succeeded', 'failed', 'cancelled', 'expired', 'skipped')),
    -- While ready: 0 due in the future, 1 claimable, 2 parked behind a limit, 3 claimable as a suspect. Otherwise
    -- null, so that each partial index below holds nothing but what its reader looks for.
    due            smallint,
    priority       integer not null default 0,
    -- The order among equals: the due time, or a fairness tag.
    rank           bigint not null,
    not_before     bigint not null,
    -- Why it is ready or blocked, or how it failed.
    reason         text,
    lane           text,
    payload        text not null,
    tags           text,
    trace          text,
    attempts       integer not null default 0,
    -- 0 is without limit.
    max_attempts   integer not null,
    retry          text,
    timeout        bigint,
    deadline       bigint,
    generation     integer not null default 0,
    -- Grows at every gain and loss of ownership.
    epoch          bigint not null default 0,
    owner          text collate "C",
    claim          text collate "C",
    claimed_at     bigint,
    -- 1 after its worker was lost once; it then runs apart from its like.
    suspect        smallint not null default 0,
    -- 1 while it runs as its worker's only job, so that a loss convicts it.
    alone          smallint not null default 0,
    crashes        integer not null default 0,
    cancel_at      bigint,
    cancel_reason  text,
    dedupe_scope   text,
    dedupe_key     text,
    dedupe_until   text,
    -- The key while this job holds it: tenant, scope and key in one.
    dedupe_held    text collate "C",
    created_at     bigint not null,
    started_at     bigint,
    finished_at    bigint,
    -- The epoch whose owner recorded the outcome: a repeated finish is recognised by it.
    finished_epoch bigint,
    error          text,
    result         text,
    check ((state = 'ready') = (due is not null)),
    check ((state = 'running') = (owner is not null))
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 1, autovacuum_analyze_scale_factor = 0.02);
create index holdfast_job_ready on holdfast_job (route, priority desc, rank, id) where due = 1;
create index holdfast_job_suspect on holdfast_job (route, priority desc, rank, id) where due = 3;
create index holdfast_job_later on holdfast_job (not_before) where due = 0;
create index holdfast_job_parked on holdfast_job (lane, priority desc, rank, id) where due = 2;
create index holdfast_job_owned on holdfast_job (owner) where owner is not null;
create index holdfast_job_finished on holdfast_job (finished_at) where finished_at is not null;
create index holdfast_job_failed on holdfast_job (id) where state = 'failed';
create index holdfast_job_waiting on holdfast_job (id) where state in ('blocked', 'suspended');
create index holdfast_job_deadline on holdfast_job (deadline) where deadline is not null and finished_at is null;
create unique index holdfast_job_dedupe on holdfast_job (dedupe_held) where dedupe_held is not null;

-- Attempts that failed, were lost, throttled or handed back. A success lives on the job.
create table holdfast_attempt (
    job_id     text collate "C" not null references holdfast_job (id) on delete cascade,
    epoch      bigint not null,
    generation integer not null,
    attempt    integer not null,
    outcome    text not null,
    worker     text,
    started_at bigint,
    ended_at   bigint not null,
    error      text,
    primary key (job_id, epoch)
);

-- Routes that ask for more than their queue. A plain route follows from the queue's name and has no row.
create table holdfast_route (
    id       bigint not null primary key,
    queue    text not null,
    requires text not null,
    affinity text not null default '',
    version  text not null default ''
);

create table holdfast_queue (
    name  text not null primary key check (length(name) between 1 and 128),
    state text not null default 'active' check (state in ('active', 'paused', 'draining', 'disabled'))
);

-- One row per worker process, under an identity made at its start. Its lease covers every job it owns.
create table holdfast_worker (
    id          text collate "C" not null primary key,
    name        text not null,
    host        text not null,
    pid         integer not null,
    -- Tells whether the process still exists, to those on the same host.
    process_key text not null,
    queues      text not null,
    tasks       text not null,
    concurrency integer not null,
    version     text not null,
    state       text not null check (state in ('alive', 'stopping', 'dead')),
    started_at  bigint not null,
    beat_at     bigint not null,
    lease       bigint not null,
    lease_until bigint not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Dedupe keys that outlive their job.
create table holdfast_dedupe (
    held       text collate "C" not null primary key,
    job_id     text collate "C" not null,
    expires_at bigint not null
);
create index holdfast_dedupe_expiry on holdfast_dedupe (expires_at);

create table holdfast_meta (
    key   text not null primary key,
    value text not null
);

-- For people and BI tools: the same rows with real timestamps.
create view holdfast_jobs as
select id, task, queue, tenant, state, reason, priority, attempts, max_attempts, crashes, owner, payload, result, error,
       to_timestamp(created_at / 1e6) as created_at,
       to_timestamp(not_before / 1e6) as not_before,
       to_timestamp(started_at / 1e6) as started_at,
       to_timestamp(finished_at / 1e6) as finished_at
  from holdfast_job;

create view holdfast_workers as
select id, name, host, pid, queues, concurrency, version, state,
       to_timestamp(started_at / 1e6) as started_at,
       to_timestamp(beat_at / 1e6) as beat_at,
       to_timestamp(lease_until / 1e6) as lease_until
  from holdfast_worker;

-- A backstop: within one generation a terminal state is final.
create function holdfast_refuse_move() returns trigger language plpgsql as $$
begin
    raise exception 'holdfast: a finished job changes only by replay';
end $$;
create trigger holdfast_job_final before update of state on holdfast_job for each row
when (old.finished_at is not null and new.state <> old.state and new.generation = old.generation)
execute function holdfast_refuse_move();
