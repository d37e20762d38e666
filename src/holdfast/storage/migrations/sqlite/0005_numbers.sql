-- Numbers: what happened in each minute, errors by kind, what is kept in mind about finished jobs and worker processes.

-- One row per queue, metric and closed minute. Counts have a count alone; latencies also how they are distributed.
create table holdfast_metric (
    queue  text not null,
    metric text not null,
    -- When the minute begins.
    minute integer not null,
    count  integer not null,
    sum    integer,
    p50    integer,
    p95    integer,
    p99    integer,
    max    integer,
    primary key (queue, metric, minute)
) without rowid;
create index holdfast_metric_minute on holdfast_metric (minute);

-- Errors that are the same but for the moment, the numbers and the addresses in them.
create table holdfast_error (
    fingerprint text not null primary key,
    task        text not null,
    type        text not null,
    -- Those of the newest.
    message     text not null,
    traceback   text not null,
    last_job    text not null,
    first_seen  integer not null,
    last_seen   integer not null,
    count       integer not null
);
create index holdfast_error_last on holdfast_error (last_seen);

-- How many finished jobs there were when they were last counted.
create table holdfast_tally (
    queue      text not null,
    state      text not null,
    jobs       integer not null,
    counted_at integer not null,
    primary key (queue, state)
) without rowid;

-- How a worker's process fares. Apart from its lease, which is written more often.
create table holdfast_pulse (
    worker    text not null primary key,
    at        integer not null,
    -- The share of one core that it used since the last time.
    cpu       real not null,
    rss       integer not null,
    -- Turns with a claim in the last minute, and what they took.
    claims    integer not null,
    claim_p50 integer,
    claim_p99 integer,
    -- Writes that wait for their turn in this process.
    waiting   integer not null
) without rowid;

-- How far those who read along have come.
create table holdfast_mark (
    name  text not null primary key,
    at    integer not null,
    place text not null default ''
) without rowid;

create index holdfast_attempt_ended on holdfast_attempt (ended_at, job_id, epoch);
