-- Who is told of what happens: endpoints of webhooks, and which deliveries are theirs.
-- oldest writer: 0009

create table holdfast_webhook (
    id           text collate "C" not null primary key,
    -- It hears of this tenant's jobs alone; '' is the operators', which hears of all.
    tenant       text not null,
    url          text not null,
    -- What it hears: kinds and tags, each a JSON array; null is all that is told of jobs, with any tags.
    events       text,
    tags         text,
    -- Whether it hears only of jobs that name it.
    called       int not null,
    -- active or disabled, and why.
    state        text not null,
    reason       text,
    secret       text not null,
    -- The one before, which signs too for a while.
    old_secret   text,
    old_until    bigint,
    -- How many deliveries may be under way at once.
    concurrency  int not null,
    -- The event after which it hears.
    after_seq    bigint not null,
    -- About when a delivery last succeeded.
    succeeded_at bigint,
    created_at   bigint not null,
    updated_at   bigint not null
);
create index holdfast_webhook_tenant on holdfast_webhook (tenant, id);
create index holdfast_webhook_hears on holdfast_webhook (id) where state = 'active' and called = 0;

-- A delivery is a job; this says of which endpoint, and about what.
create table holdfast_delivery (
    job_id   text collate "C" not null primary key,
    endpoint text collate "C" not null,
    -- Its id for the receiver: the same however often it is sent.
    message  text not null,
    kind     text not null,
    -- The job that it tells of, if it is one.
    job      text,
    at       bigint not null
);
create index holdfast_delivery_endpoint on holdfast_delivery (endpoint, job_id);

-- The URL that is told what becomes of a job, where it named one. The endpoint is that of the URL's host.
create table holdfast_callback (
    job_id text collate "C" not null primary key,
    url    text not null
);
