-- Jobs that wait for jobs, remember their steps, or wait for a signal.
-- oldest writer: 0006

-- The flow that a job is a member of, and its name there.
alter table holdfast_job add column flow text collate "C";
alter table holdfast_job add column member text collate "C";
-- 1 where its end concerns others: it belongs to a flow, or somebody waits for it.
alter table holdfast_job add column linked smallint not null default 0;
-- Which of its arguments are the results of other jobs, as JSON; null for most.
alter table holdfast_job add column inputs text;
create unique index holdfast_job_member on holdfast_job (flow, member) where flow is not null;

create table holdfast_flow (
    id            text collate "C" not null primary key,
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
    cancel_at     bigint,
    created_at    bigint not null,
    finished_at   bigint
) with (fillfactor = 50);
create index holdfast_flow_finished on holdfast_flow (finished_at) where finished_at is not null;

-- An arrow from a job to one that waits for it: a member of its flow (`flow`), or a suspended job (`wait`).
create table holdfast_edge (
    upstream   text collate "C" not null,
    downstream text collate "C" not null,
    kind       text not null check (kind in ('flow', 'wait')),
    -- Which end of the upstream counts: success, failure, or any.
    policy     text not null check (policy in ('success', 'failure', 'any')),
    -- 0 while it is only planned: nobody waits for it yet.
    applied    integer not null default 1,
    -- Null until the upstream has ended: then 1 if it ended as asked, else 0. Each edge is counted once.
    met        integer,
    primary key (upstream, downstream, kind)
);
create index holdfast_edge_downstream on holdfast_edge (downstream, kind);

-- What a job waits for. In a narrow row of its own: 10,000 upstreams would write the job's wide one 10,000 times.
create table holdfast_join (
    job_id text collate "C" not null,
    kind   text not null check (kind in ('flow', 'wait')),
    mode   text not null check (mode in ('all', 'any', 'quorum')),
    -- What becomes of the upstreams that are no longer needed: cancel or run.
    rest   text not null check (rest in ('cancel', 'run')),
    -- So many more upstreams must end as asked; at 0 the job is released.
    awaits integer not null,
    -- So many more may end otherwise; below 0 the job has become impossible.
    spare  integer not null,
    primary key (job_id, kind)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200);

-- Jobs that have ended and whose edges and flow do not know it yet. Filled by the trigger below in the commit of the
-- end, whoever ends a job; emptied in that commit, or where the cascade goes on, in a later one.
create table holdfast_hop (
    job_id text collate "C" not null primary key,
    at     bigint not null
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200);

create function holdfast_note_hop() returns trigger language plpgsql as $$
begin
    insert into holdfast_hop (job_id, at) values (new.id, new.finished_at) on conflict do nothing;
    return null;
end $$;
create trigger holdfast_job_hop after update of finished_at on holdfast_job for each row
when (new.linked = 1 and new.finished_at is not null and old.finished_at is null)
execute function holdfast_note_hop();

-- What a job has done: once written, never changed. Answers its repetitions.
create table holdfast_step (
    job_id     text collate "C" not null,
    -- Kind, name and the how-manieth of that name: `step:load#1`.
    key        text collate "C" not null,
    position   integer not null,
    kind       text not null,
    name       text not null,
    -- What was called; another under the same key is a divergence.
    called     text not null default '',
    -- JSON.
    value      text,
    attempts   integer not null default 1,
    epoch      bigint not null,
    started_at bigint not null,
    ended_at   bigint not null,
    primary key (job_id, key)
);

-- What a suspended job waits for, besides jobs.
create table holdfast_wait (
    job_id     text collate "C" not null primary key,
    -- The step that the answer becomes.
    key        text collate "C" not null,
    -- JSON: which signals, how many, from how many different sources.
    condition  text not null,
    timeout_at bigint,
    on_timeout text not null check (on_timeout in ('fail', 'cancel', 'expire', 'resume', 'escalate')),
    since      bigint not null
);
create index holdfast_wait_timeout on holdfast_wait (timeout_at) where timeout_at is not null;

-- A place where a signal may arrive, with a token that needs no other permission.
create table holdfast_waitpoint (
    id         text collate "C" not null primary key,
    job_id     text collate "C" not null,
    name       text not null,
    -- The key that signed its token. The token itself is not stored.
    kid        text collate "C" not null,
    -- JSON schema of the payload, for forms.
    schema     text,
    expires_at bigint not null,
    created_at bigint not null,
    closed_at  bigint,
    refusals   integer not null default 0
);
create index holdfast_waitpoint_job on holdfast_waitpoint (job_id);
create index holdfast_waitpoint_open on holdfast_waitpoint (expires_at) where closed_at is null;

-- The mailbox of a job, in the order of acceptance.
create table holdfast_signal (
    job_id    text collate "C" not null,
    seq       integer not null,
    name      text not null,
    waitpoint text collate "C",
    payload   text not null,
    -- Who sent it, as far as that is known.
    source    text not null default '',
    idem_key  text,
    at        bigint not null,
    -- The step that consumed it.
    taken_by  text,
    primary key (job_id, seq)
);
create unique index holdfast_signal_idem on holdfast_signal (job_id, idem_key) where idem_key is not null;

-- Keys that sign tokens. One is active; those before it verify until `valid_until`.
create table holdfast_key (
    kid         text collate "C" not null primary key,
    secret      text not null,
    state       text not null check (state in ('active', 'retired', 'revoked')),
    created_at  bigint not null,
    -- The latest expiry of a token that it signed.
    longest     bigint not null default 0,
    valid_until bigint
);
