-- What operators did, and what they set for a queue.

-- One row per action, in the same commit as the action. Ids are time-ordered.
create table holdfast_audit (
    id          text not null primary key,
    at          integer not null,
    actor       text not null,
    action      text not null,
    target_kind text not null,
    target      text not null,
    reason      text not null default '',
    -- JSON; what was there, and what is there now or how many were changed.
    before      text,
    after       text
);
create index holdfast_audit_at on holdfast_audit (at);
create index holdfast_audit_target on holdfast_audit (target_kind, target, id);
