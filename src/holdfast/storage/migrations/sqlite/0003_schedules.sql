-- Leadership and schedules. Instants and durations are integer microseconds.

-- Who does what one worker is enough for. Only for efficiency: everything done under it is safe when two do it.
create table holdfast_leader (
    role     text not null primary key,
    holder   text not null,
    until_at integer not null
) without rowid;

create table holdfast_schedule (
    name          text not null primary key check (length(name) between 1 and 128),
    task          text not null check (length(task) between 1 and 128),
    payload       text not null,
    queue         text not null check (length(queue) between 1 and 128),
    -- The rest of the job to be made.
    options       text not null,
    -- The parameter that takes the tick's time, if any.
    tick_argument text,
    expression    text,
    every         integer check (every > 0),
    zone          text not null,
    state         text not null check (state in ('active', 'paused', 'broken')),
    missed        text not null check (missed in ('skip', 'one', 'all')),
    max_missed    integer not null,
    overlap       text not null check (overlap in ('allow', 'skip', 'cancel_previous')),
    jitter        integer not null,
    cooldown      integer not null,
    -- Where an interval counts from: its creation, its last change, or the end of its last pause.
    anchor        integer not null,
    -- Every tick up to here has been dealt with. It never goes back.
    last_tick     integer not null,
    -- When to look again; null unless active.
    next_tick     integer,
    -- Grows with every change of what it does and when.
    version       integer not null default 1,
    origin        text not null check (origin in ('code', 'runtime')),
    -- The fields that an operator has changed: code no longer does.
    edited        text not null default '[]',
    last_job      text,
    fired         integer not null default 0,
    skipped       integer not null default 0,
    last_error    text,
    -- Ticks before this are forgotten and may not be made again.
    pruned_to     integer,
    created_at    integer not null,
    updated_at    integer not null,
    check ((expression is null) <> (every is null)),
    check ((state = 'active') = (next_tick is not null))
);
create index holdfast_schedule_due on holdfast_schedule (next_tick, name) where next_tick is not null;

-- One row per tick that made a job, in the job's own commit; it outlives the job.
create table holdfast_cron_tick (
    schedule text not null,
    tick     integer not null,
    job_id   text not null,
    primary key (schedule, tick)
) without rowid;
