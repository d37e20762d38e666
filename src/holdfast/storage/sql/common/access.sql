-- name: add_token
-- Returns nothing where an active token has that name.
insert into holdfast_token (id, name, hash, scopes, tenant, created_at, created_by, expires_at, queues, tasks)
values (:id, :name, :hash, :scopes, :tenant, :now, :actor, :now + cast(:expires as bigint), :queues, :tasks)
    on conflict (name) where revoked_at is null do nothing
returning id;

-- name: retire_expired_token
-- The name of one that has expired may be used again. Index: holdfast_token_name.
update holdfast_token set revoked_at = :now where name = :name and revoked_at is null and expires_at <= :now;

-- name: find_token
-- By its id, or by its name: of several the active one, else the newest.
select id, name, scopes, tenant, created_at, created_by, expires_at, last_used_at, revoked_at, queues, tasks, :now
  from holdfast_token
 where id = :which or name = :which
 order by case when id = :which then 0 when revoked_at is null then 1 else 2 end, id desc
 limit 1;

-- name: list_tokens
select id, name, scopes, tenant, created_at, created_by, expires_at, last_used_at, revoked_at, queues, tasks, :now
  from holdfast_token
 where id > :after
 order by id
 limit :n;

-- name: revoke_token
update holdfast_token set revoked_at = :now where id = :id and revoked_at is null returning id;

-- name: identify_token
-- Index: holdfast_token_hash.
select id, name, scopes, tenant, created_at, created_by, expires_at, last_used_at, revoked_at, queues, tasks, :now, hash
  from holdfast_token where hash = :hash;

-- name: touch_token
-- Not at each use: a busy token would be written constantly.
update holdfast_token set last_used_at = :now where id = :id and coalesce(last_used_at, 0) <= :now - :rest;

-- name: open_session
insert into holdfast_session (hash, token, created_at, seen_at) values (:hash, :token, :now, :now);

-- name: identify_session
select t.id, t.name, t.scopes, t.tenant, t.created_at, t.created_by, t.expires_at, t.last_used_at, t.revoked_at, t.queues,
       t.tasks, :now,
       s.hash, s.created_at, s.seen_at, s.ended_at
  from holdfast_session as s join holdfast_token as t on t.id = s.token
 where s.hash = :hash;

-- name: touch_session
-- Never one that has ended: it would be opened again.
update holdfast_session set seen_at = :now
 where hash = :hash and ended_at is null and seen_at <= :now - :rest and seen_at > :now - :idle;

-- name: end_session
update holdfast_session set ended_at = :now where hash = :hash and ended_at is null returning hash;

-- name: access_is_over
-- Whether there is something to prune; takes no lock. Index: holdfast_session_created; tokens are few.
select 1
 where exists (select 1 from holdfast_session where created_at <= :now - :life)
    or exists (select 1 from holdfast_token where coalesce(revoked_at, expires_at) <= :now - :kept);

-- name: prune_sessions
-- Whatever its end was, no session is valid for longer. Index: holdfast_session_created.
delete from holdfast_session
 where hash in (select hash from holdfast_session where created_at <= :now - :life order by created_at limit :n)
returning hash;

-- name: prune_tokens
delete from holdfast_token
 where id in (select id from holdfast_token where coalesce(revoked_at, expires_at) <= :now - :kept order by id limit :n)
returning id;
