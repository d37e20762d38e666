-- Budgets in any dimensions, and quotas by window and by number at once.
-- oldest writer: 0009

-- What may be spent. `key` is tenant and name in one.
create table holdfast_budget (
    key         text collate "C" not null primary key,
    tenant      text not null default '',
    name        text not null check (length(name) between 1 and 128),
    -- The key of the budget that this is a part of: what counts here counts there as well.
    parent      text collate "C",
    -- When it begins anew: every so often from the anchor on, or by a cron expression; neither is never.
    every       bigint check (every > 0),
    expression  text,
    zone        text not null default 'UTC',
    anchor      bigint not null,
    next_reset  bigint,
    reset_at    bigint,
    resets      bigint not null default 0,
    -- When a limit was last met, since it began anew.
    breached_at bigint,
    -- Who said so last; code does not change what an operator set.
    origin      text not null default 'code',
    created_at  bigint not null,
    check (every is null or expression is null)
) with (fillfactor = 50);
create index holdfast_budget_parent on holdfast_budget (parent) where parent is not null;
create index holdfast_budget_reset on holdfast_budget (next_reset) where next_reset is not null;

-- One row per dimension. Amounts are millionths. Whoever writes here has locked the budget's own row before.
create table holdfast_budget_line (
    budget        text collate "C" not null,
    dimension     text collate "C" not null check (length(dimension) between 1 and 128),
    -- Null is without limit.
    hard          bigint check (hard >= 0),
    soft          bigint check (soft >= 0),
    spent         bigint not null default 0,
    -- These survive every reset.
    lifetime      bigint not null default 0,
    soft_breaches bigint not null default 0,
    hard_breaches bigint not null default 0,
    -- 1 once the soft limit was crossed: it is told once.
    warned        smallint not null default 0,
    primary key (budget, dimension)
) with (fillfactor = 50);

-- What a run has set aside. It counts only while that job runs under that epoch, so that nothing can be left behind by a
-- run that was lost: when its job is rescued, it is over. One row for each budget of the chain.
create table holdfast_reservation (
    job_id    text collate "C" not null,
    epoch     bigint not null,
    -- Which of the run's reservations: the step, or that with which it was admitted.
    hold      text collate "C" not null,
    budget    text collate "C" not null,
    dimension text collate "C" not null,
    amount    bigint not null check (amount > 0),
    primary key (job_id, epoch, hold, budget, dimension)
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200);
create index holdfast_reservation_budget on holdfast_reservation (budget, dimension);

-- Spends with a key of their own: the same again within a day changes nothing.
create table holdfast_spend (
    budget     text collate "C" not null,
    idem_key   text collate "C" not null,
    amounts    text not null,
    answer     text not null,
    expires_at bigint not null,
    primary key (budget, idem_key)
);
create index holdfast_spend_expiry on holdfast_spend (expires_at);

create table holdfast_quota (
    key         text collate "C" not null primary key,
    tenant      text not null default '',
    name        text not null check (length(name) between 1 and 128),
    -- So many within any span of so many microseconds; both or neither.
    allowed     bigint check (allowed > 0),
    span        bigint check (span > 0),
    -- So many at once.
    concurrency bigint check (concurrency > 0),
    admitted    bigint not null default 0,
    refused     bigint not null default 0,
    origin      text not null default 'code',
    created_at  bigint not null,
    check ((allowed is null) = (span is null))
) with (fillfactor = 50);

-- Who was admitted. `active` counts among those at once, and of a job only while it runs under that epoch.
create table holdfast_admission (
    quota    text collate "C" not null,
    holder   text collate "C" not null,
    at       bigint not null,
    until_at bigint not null,
    job_id   text collate "C",
    epoch    bigint,
    active   smallint not null default 1,
    primary key (quota, holder)
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 200);
create index holdfast_admission_at on holdfast_admission (quota, at);
create index holdfast_admission_active on holdfast_admission (quota) where active = 1;
create index holdfast_admission_job on holdfast_admission (job_id) where job_id is not null;
create index holdfast_admission_until on holdfast_admission (until_at);

-- Jobs that are blocked because a budget or a quota refused them, and what they asked of it.
create table holdfast_shortage (
    job_id text collate "C" not null primary key,
    kind   text not null check (kind in ('budget', 'quota')),
    -- Of the budget or quota.
    key    text collate "C" not null,
    -- JSON: millionths by dimension.
    asked  text not null,
    since  bigint not null
);
create index holdfast_shortage_key on holdfast_shortage (key, since);
