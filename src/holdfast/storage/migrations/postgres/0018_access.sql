-- Who may come in over HTTP: tokens, and the sessions that browsers opened with one. Neither secret is stored.
-- oldest writer: 0009

create table holdfast_token (
    id           text collate "C" not null primary key,
    name         text not null,
    -- The SHA-256 of its secret, in hexadecimal digits.
    hash         text not null,
    -- A JSON array.
    scopes       text not null,
    -- It reaches this tenant's part alone; '' is the whole store.
    tenant       text not null,
    created_at   bigint not null,
    created_by   text not null,
    -- Null is never.
    expires_at   bigint,
    -- About when it was last used.
    last_used_at bigint,
    revoked_at   bigint
);
create unique index holdfast_token_hash on holdfast_token (hash);
create unique index holdfast_token_name on holdfast_token (name) where revoked_at is null;

create table holdfast_session (
    -- The SHA-256 of its secret, which is in the browser's cookie.
    hash       text collate "C" not null primary key,
    -- What opened it. It is as good as its token is.
    token      text collate "C" not null,
    created_at bigint not null,
    -- About when it was last used.
    seen_at    bigint not null,
    ended_at   bigint
);
create index holdfast_session_created on holdfast_session (created_at);
