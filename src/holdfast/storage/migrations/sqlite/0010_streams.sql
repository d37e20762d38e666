-- What a job says while it runs: its progress, a stream of frames, and a summary.
-- oldest writer: 0006

-- The head of a stream. Whoever appends holds its row, so that numbers have no gaps and are committed in their order.
create table holdfast_stream (
    job_id      text not null primary key,
    -- The last durable frame, and the last one that may be dropped. Each kind has its own numbers.
    head        integer not null default 0,
    live        integer not null default 0,
    -- Best-effort frames up to this number are gone.
    trimmed     integer not null default 0,
    -- Of the durable frames.
    bytes       integer not null default 0,
    -- Best-effort frames per second, as a moving average, and when that was measured.
    rate        real not null default 0,
    rate_at     integer,
    -- Who appended last, and the number of that batch: a batch that is sent again is recognised by them.
    writer      text not null default '',
    batch       integer not null default 0,
    -- Generation and attempt that the progress is of.
    run         text,
    percent     real,
    message     text,
    stage       text,
    progress_at integer
) without rowid;

-- In the order in which they were appended: a frame has the number of its kind and the last one of the other.
create table holdfast_frame (
    job_id      text not null,
    seq         integer not null,
    live        integer not null,
    best_effort integer not null,
    -- 1 once the step that said it has begun again.
    superseded  integer not null default 0,
    kind        text not null,
    -- How to read the data: text, bytes, json, or control.
    encoding    text not null,
    data        blob not null,
    step        text not null default '',
    generation  integer not null,
    attempt     integer not null,
    at          integer not null,
    primary key (job_id, seq, live)
) without rowid;
create index holdfast_frame_live on holdfast_frame (job_id, live) where best_effort = 1;
create index holdfast_frame_step on holdfast_frame (job_id, step) where step <> '';

-- A JSON document that a job keeps about itself. Apart from the head, which is written many times a second.
create table holdfast_summary (
    job_id   text not null primary key,
    document text not null,
    version  integer not null,
    at       integer not null
) without rowid;
