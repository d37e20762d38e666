-- Numbers: what happened in each minute, errors by kind, what is kept in mind about finished jobs and worker processes.

-- One row per queue, metric and closed minute. Counts have a count alone; latencies also how they are distributed.
create table holdfast_metric (
    queue  text not null,
    metric text not null,
    -- When the minute begins.
    minute bigint not null,
    count  bigint not null,
    sum    bigint,
    p50    bigint,
    p95    bigint,
    p99    bigint,
    max    bigint,
    primary key (queue, metric, minute)
);
create index holdfast_metric_minute on holdfast_metric (minute);

-- Errors that are the same but for the moment, the numbers and the addresses in them.
create table holdfast_error (
    fingerprint text not null primary key,
    task        text not null,
    type        text not null,
    -- Those of the newest.
    message     text not null,
    traceback   text not null,
    last_job    text collate "C" not null,
    first_seen  bigint not null,
    last_seen   bigint not null,
    count       bigint not null
);
create index holdfast_error_last on holdfast_error (last_seen);

-- How many finished jobs there were when they were last counted.
create table holdfast_tally (
    queue      text not null,
    state      text not null,
    jobs       bigint not null,
    counted_at bigint not null,
    primary key (queue, state)
);

-- How a worker's process fares. Apart from its lease, which is written more often.
create table holdfast_pulse (
    worker    text collate "C" not null primary key,
    at        bigint not null,
    -- The share of one core that it used since the last time.
    cpu       double precision not null,
    rss       bigint not null,
    -- Turns with a claim in the last minute, and what they took.
    claims    bigint not null,
    claim_p50 bigint,
    claim_p99 bigint,
    -- Writes that wait for their turn in this process.
    waiting   bigint not null
);

-- How far those who read along have come.
create table holdfast_mark (
    name  text not null primary key,
    at    bigint not null,
    place text not null default ''
);

create index holdfast_attempt_ended on holdfast_attempt (ended_at, job_id, epoch);

-- For people and BI tools: the same rows with real timestamps and seconds.
create view holdfast_metrics as
select queue, metric, to_timestamp(minute / 1e6) as minute, count, sum / 1e6 as sum_seconds, p50 / 1e6 as p50_seconds,
       p95 / 1e6 as p95_seconds, p99 / 1e6 as p99_seconds, max / 1e6 as max_seconds
  from holdfast_metric;
