-- Concurrency and fairness by lanes, rates by token buckets, queues that cool down.

-- What a job asks of the limits, as JSON; null for most.
alter table holdfast_job add column limits text;
-- The lanes in which it counts while it runs, as JSON.
alter table holdfast_job add column holds text;

-- One row per concurrency or fairness key. `lane` of a parked job names the lane that it waits for.
create table holdfast_lane (
    key      text collate "C" not null primary key,
    -- Whether it applies to jobs that do not name it: the lane of a task or of a queue.
    standing smallint not null default 0,
    -- Null is without limit.
    capacity bigint check (capacity >= 0),
    running  bigint not null default 0,
    -- Who said so last; code does not change what an operator set.
    origin   text not null default 'code',
    -- Of a fairness lane: the rank that its next job gets, if the queue has not gone past it.
    last     bigint not null default 0
) with (fillfactor = 50);
create index holdfast_lane_standing on holdfast_lane (key) where standing = 1;

create table holdfast_bucket (
    scope       text not null primary key,
    capacity    double precision not null check (capacity > 0),
    -- Tokens per second.
    refill      double precision not null check (refill > 0),
    tokens      double precision not null,
    refilled_at bigint not null,
    origin      text not null default 'code'
) with (fillfactor = 50);

-- How often it was throttled in a row, and until when it hands out nothing.
alter table holdfast_queue add column throttles integer not null default 0;
alter table holdfast_queue add column cool_until bigint;
