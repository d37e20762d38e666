-- Leadership and schedules. Instants and durations are bigint microseconds.

-- Who does what one worker is enough for. Only for efficiency: everything done under it is safe when two do it.
create table holdfast_leader (
    role     text collate "C" not null primary key,
    holder   text not null,
    until_at bigint not null
);

create table holdfast_schedule (
    name          text collate "C" not null primary key check (length(name) between 1 and 128),
    task          text not null check (length(task) between 1 and 128),
    payload       text not null,
    queue         text not null check (length(queue) between 1 and 128),
    -- The rest of the job to be made.
    options       text not null,
    -- The parameter that takes the tick's time, if any.
    tick_argument text,
    expression    text,
    every         bigint check (every > 0),
    zone          text not null,
    state         text not null check (state in ('active', 'paused', 'broken')),
    missed        text not null check (missed in ('skip', 'one', 'all')),
    max_missed    integer not null,
    overlap       text not null check (overlap in ('allow', 'skip', 'cancel_previous')),
    jitter        bigint not null,
    cooldown      bigint not null,
    -- Where an interval counts from: its creation, its last change, or the end of its last pause.
    anchor        bigint not null,
    -- Every tick up to here has been dealt with. It never goes back.
    last_tick     bigint not null,
    -- When to look again; null unless active.
    next_tick     bigint,
    -- Grows with every change of what it does and when.
    version       bigint not null default 1,
    origin        text not null check (origin in ('code', 'runtime')),
    -- The fields that an operator has changed: code no longer does.
    edited        text not null default '[]',
    last_job      text collate "C",
    fired         bigint not null default 0,
    skipped       bigint not null default 0,
    last_error    text,
    -- Ticks before this are forgotten and may not be made again.
    pruned_to     bigint,
    created_at    bigint not null,
    updated_at    bigint not null,
    check ((expression is null) <> (every is null)),
    check ((state = 'active') = (next_tick is not null))
);
create index holdfast_schedule_due on holdfast_schedule (next_tick, name) where next_tick is not null;

-- One row per tick that made a job, in the job's own commit; it outlives the job.
create table holdfast_cron_tick (
    schedule text collate "C" not null,
    tick     bigint not null,
    job_id   text collate "C" not null,
    primary key (schedule, tick)
);

-- For people and BI tools: the same rows with real timestamps.
create view holdfast_schedules as
select name, task, queue, expression, every / 1e6 as every_seconds, zone, state, missed, overlap, origin, fired, skipped,
       last_error, last_job,
       to_timestamp(last_tick / 1e6) as last_tick,
       to_timestamp(next_tick / 1e6) as next_tick
  from holdfast_schedule;
