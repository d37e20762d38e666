-- name: page_of_ended
-- Oldest first, from the index alone but for the id. Index: holdfast_ended_time.
select id, queue, state, finished_at from holdfast_ended
 where finished_at > :after and finished_at <= :now - :kept
 order by finished_at, queue, state
 limit :n offset :skip;

-- name: ended_in_queue
-- Only the cap matters. Index: holdfast_ended_time, which has all columns that are read.
select count(*) from holdfast_ended where finished_at is not null and queue = :queue;

-- name: page_of_evicted
-- Oldest first, from where the last page ended. Index: holdfast_ended_time.
select id, finished_at from holdfast_ended
 where finished_at >= :after and queue = :queue and state = :state
 order by finished_at
 limit :n;

-- name: what_is_over
-- Whether there is a closed window or an old record; takes no lock. Indexes: holdfast_dedupe_expiry,
-- holdfast_audit_at.
select case when exists (select 1 from holdfast_dedupe where expires_at <= :now) then 1 else 0 end,
       case when exists (select 1 from holdfast_audit where at <= :now - :kept) then 1 else 0 end;

-- name: expired_windows
-- Index: holdfast_dedupe_expiry.
delete from holdfast_dedupe
 where held in (select held from holdfast_dedupe where expires_at <= :now order by expires_at limit :n)
returning held;
