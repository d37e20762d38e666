-- The order of outbox entries that share a key, and what waits in a queue until somebody acts.
-- oldest writer: 0009

-- One row for each entry of an ordered destination that has a key and has not ended. Numbers follow the order of the puts.
create table holdfast_outbox_order (
    -- Greater than any that is there, which is all that matters.
    seq    integer not null primary key,
    queue  text not null,
    -- The tenant and the key.
    key    text not null,
    job_id text not null
);
create unique index holdfast_outbox_order_job on holdfast_outbox_order (job_id);
create index holdfast_outbox_order_key on holdfast_outbox_order (queue, key, seq);

create index holdfast_job_blocked on holdfast_job (queue, id) where state = 'blocked';
