-- What a job says while it runs: its progress, a stream of frames, and a summary.
-- oldest writer: 0006

-- The head of a stream. Whoever appends holds its row, so that numbers have no gaps and are committed in their order.
create table holdfast_stream (
    job_id      text collate "C" not null primary key,
    -- The last durable frame, and the last one that may be dropped. Each kind has its own numbers.
    head        bigint not null default 0,
    live        bigint not null default 0,
    -- Best-effort frames up to this number are gone.
    trimmed     bigint not null default 0,
    -- Of the durable frames.
    bytes       bigint not null default 0,
    -- Best-effort frames per second, as a moving average, and when that was measured.
    rate        double precision not null default 0,
    rate_at     bigint,
    -- Who appended last, and the number of that batch: a batch that is sent again is recognised by them.
    writer      text not null default '',
    batch       bigint not null default 0,
    -- Generation and attempt that the progress is of.
    run         text,
    percent     double precision,
    message     text,
    stage       text,
    progress_at bigint
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200);

-- In the order in which they were appended: a frame has the number of its kind and the last one of the other.
create table holdfast_frame (
    job_id      text collate "C" not null,
    seq         bigint not null,
    live        bigint not null,
    best_effort smallint not null,
    -- 1 once the step that said it has begun again.
    superseded  smallint not null default 0,
    kind        text not null,
    -- How to read the data: text, bytes, json, or control.
    encoding    text not null,
    data        bytea not null,
    step        text collate "C" not null default '',
    generation  integer not null,
    attempt     integer not null,
    at          bigint not null,
    primary key (job_id, seq, live)
);
create index holdfast_frame_live on holdfast_frame (job_id, live) where best_effort = 1;
create index holdfast_frame_step on holdfast_frame (job_id, step) where step <> '';

-- A JSON document that a job keeps about itself. Apart from the head, which is written many times a second.
create table holdfast_summary (
    job_id   text collate "C" not null primary key,
    document text not null,
    version  bigint not null,
    at       bigint not null
);
