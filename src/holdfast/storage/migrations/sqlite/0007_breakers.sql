-- Circuit breakers: a destination that fails again and again is left alone for a while, then tried by one job.
create table holdfast_breaker (
    scope       text not null primary key check (length(scope) between 1 and 128),
    -- Failures in a row that open it, and for how long.
    threshold   integer not null check (threshold > 0),
    open_for    integer not null check (open_for > 0),
    -- In a row, while it is closed.
    failures    integer not null default 0,
    -- Null while it is closed. Once `open_until` has passed, a single job tries.
    opened_at   integer,
    open_until  integer,
    -- The run that tries. It counts only while that job runs under that epoch, so a lost one blocks nobody.
    trial       text,
    trial_epoch integer,
    -- How often it has opened.
    openings    integer not null default 0,
    -- Who said so last; code does not change what an operator set.
    origin      text not null default 'code',
    check ((opened_at is null) = (open_until is null))
) without rowid;
