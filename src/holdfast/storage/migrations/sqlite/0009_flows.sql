-- Jobs that wait for jobs, remember their steps, or wait for a signal.
-- oldest writer: 0006

-- The flow that a job is a member of, and its name there.
alter table holdfast_job add column flow text;
alter table holdfast_job add column member text;
-- 1 where its end concerns others: it belongs to a flow, or somebody waits for it.
alter table holdfast_job add column linked integer not null default 0;
-- Which of its arguments are the results of other jobs, as JSON; null for most.
alter table holdfast_job add column inputs text;
create unique index holdfast_job_member on holdfast_job (flow, member) where flow is not null;

create table holdfast_flow (
    id            text not null primary key,
    name          text not null,
    tenant        text not null default '',
    -- Grows with every change of the graph.
    revision      integer not null default 0,
    members       integer not null default 0,
    -- Members that have not ended. Nobody sees a flow end before its last member's outcome is stored: same commit.
    live          integer not null default 0,
    -- Jobs to enqueue at its end, as JSON.
    on_success    text,
    on_failure    text,
    cancel_policy text,
    cancel_reason text,
    cancel_at     integer,
    created_at    integer not null,
    finished_at   integer,
    -- What its members came to; null until it has ended.
    outcome       text check (outcome in ('succeeded', 'failed', 'cancelled')),
    -- While a cancel is being carried out: the name of the last member that it has reached.
    cancel_upto   text,
    -- The job that is still to be enqueued at its end, because its queue took none: on_success or on_failure.
    callback      text
);
create index holdfast_flow_finished on holdfast_flow (finished_at) where finished_at is not null;
create index holdfast_flow_cancelling on holdfast_flow (id) where cancel_upto is not null;
create index holdfast_flow_callback on holdfast_flow (id) where callback is not null;

-- An arrow from a job to one that waits for it: a member of its flow (`flow`), or a suspended job (`wait`).
create table holdfast_edge (
    upstream   text not null,
    downstream text not null,
    kind       text not null check (kind in ('flow', 'wait')),
    -- Which end of the upstream counts: success, failure, or any.
    policy     text not null check (policy in ('success', 'failure', 'any')),
    -- 0 while it is only planned: nobody waits for it yet.
    applied    integer not null default 1,
    -- Null until the upstream has ended: then 1 if it ended as asked, else 0. Each edge is counted once.
    met        integer,
    primary key (upstream, downstream, kind)
) without rowid;
create index holdfast_edge_downstream on holdfast_edge (downstream, kind, upstream);

-- What a job waits for. In a narrow row of its own: 10,000 upstreams would write the job's wide one 10,000 times.
create table holdfast_join (
    job_id text not null,
    kind   text not null check (kind in ('flow', 'wait')),
    mode   text not null check (mode in ('all', 'any', 'quorum')),
    -- What becomes of the upstreams that are no longer needed: cancel or run.
    rest   text not null check (rest in ('cancel', 'run')),
    -- With a quorum: of how many.
    needed integer not null default 0,
    -- 0 while its edges are only planned.
    applied integer not null default 1,
    -- How long the longest chain is that ends here.
    depth  integer not null default 1,
    -- 1 while upstreams that it no longer needs are still to be cancelled.
    sweep  integer not null default 0,
    -- So many more upstreams must end as asked; at 0 the job is released.
    awaits integer not null,
    -- So many more may end otherwise; below 0 the job has become impossible.
    spare  integer not null,
    primary key (job_id, kind)
) without rowid;

create index holdfast_join_sweep on holdfast_join (job_id) where sweep = 1;

-- Jobs that have ended, or were replayed, and whose edges and flow do not know it yet. Filled by the triggers below in
-- the same commit, whoever ends a job; emptied in that commit, or where the cascade goes on, in a later one.
create table holdfast_hop (
    job_id text not null primary key,
    at     integer not null,
    -- How it ended, or `replayed`.
    state  text not null,
    -- Whose count of live members changes; null if none does.
    flow   text
) without rowid;

-- An end after a replay that nobody knows of yet: the flow's count stays.
create trigger holdfast_job_hop after update of finished_at on holdfast_job
when new.linked = 1 and new.finished_at is not null and old.finished_at is null
begin
    insert into holdfast_hop (job_id, at, state, flow) values (new.id, new.finished_at, new.state, new.flow)
        on conflict (job_id) do update set at = excluded.at, state = excluded.state, flow = null;
end;

-- A replay after an end that nobody knows of yet: neither counts.
create trigger holdfast_job_again after update of finished_at on holdfast_job
when new.linked = 1 and new.finished_at is null and old.finished_at is not null
begin
    insert into holdfast_hop (job_id, at, state, flow)
    select new.id, new.not_before, 'replayed', new.flow
     where not exists (select 1 from holdfast_hop where job_id = new.id);
    delete from holdfast_hop where job_id = new.id and state <> 'replayed';
end;

create trigger holdfast_job_gone after delete on holdfast_job when old.linked = 1 and old.finished_at is null
begin
    insert into holdfast_hop (job_id, at, state, flow) values (old.id, old.not_before, 'cancelled', old.flow)
        on conflict (job_id) do update set state = excluded.state, flow = null;
end;

-- What a job has done: once written, never changed. Answers its repetitions.
create table holdfast_step (
    job_id     text not null,
    -- Kind, name and the how-manieth of that name: `step:load#1`.
    key        text not null,
    position   integer not null,
    kind       text not null,
    name       text not null,
    -- What was called; another under the same key is a divergence.
    called     text not null default '',
    -- JSON.
    value      text,
    -- Instead of a value: it failed, and the job went on nevertheless.
    error      text,
    attempts   integer not null default 1,
    epoch      integer not null,
    started_at integer not null,
    ended_at   integer not null,
    primary key (job_id, key)
) without rowid;

-- What a suspended job waits for, besides jobs.
create table holdfast_wait (
    job_id     text not null primary key,
    -- The step that the answer becomes.
    key        text not null,
    -- JSON: which signals, how many, from how many different sources; what fits; how long to rest after.
    condition  text not null,
    timeout_at integer,
    -- When to look at it next: at its timeout, or when the waitpoints that it still needs have expired.
    wake_at    integer,
    on_timeout text not null check (on_timeout in ('fail', 'cancel', 'expire', 'resume', 'escalate')),
    since      integer not null
) without rowid;
create index holdfast_wait_timeout on holdfast_wait (wake_at) where wake_at is not null;

-- A place where a signal may arrive, with a token that needs no other permission.
create table holdfast_waitpoint (
    id         text not null primary key,
    job_id     text not null,
    -- The step that opened it.
    key        text not null,
    name       text not null,
    -- The key that signed its token. The token itself is not stored.
    kid        text not null,
    -- JSON schema of the payload, for forms.
    schema     text,
    expires_at integer not null,
    created_at integer not null,
    closed_at  integer,
    -- Of the job when it was opened: a replay makes older tokens worthless.
    generation integer not null default 0,
    -- 1 if it closes with its first signal.
    once       integer not null default 1,
    -- Tokens that named it and were not accepted, and when the last one was.
    refusals   integer not null default 0,
    refused_at integer
) without rowid;
create unique index holdfast_waitpoint_job on holdfast_waitpoint (job_id, key);
create index holdfast_waitpoint_open on holdfast_waitpoint (id) where closed_at is null;

-- The mailbox of a job, in the order of acceptance.
create table holdfast_signal (
    job_id    text not null,
    seq       integer not null,
    name      text not null,
    waitpoint text,
    payload   text not null,
    -- Who sent it, as far as that is known.
    source    text not null default '',
    idem_key  text,
    at        integer not null,
    -- The step that consumed it.
    taken_by  text,
    primary key (job_id, seq)
) without rowid;
create index holdfast_signal_unread on holdfast_signal (job_id, seq, name, waitpoint, source) where taken_by is null;
create unique index holdfast_signal_idem on holdfast_signal (job_id, idem_key) where idem_key is not null;

-- Keys that sign tokens. One is active; those before it verify until `valid_until`.
create table holdfast_key (
    kid         text not null primary key,
    secret      text not null,
    state       text not null check (state in ('active', 'retired', 'revoked')),
    created_at  integer not null,
    -- The latest expiry of a token that it signed.
    longest     integer not null default 0,
    valid_until integer
) without rowid;
create unique index holdfast_key_active on holdfast_key (state) where state = 'active';
