-- name: lock_breaker
-- The write lock is held; Postgres locks the row.
select scope from holdfast_breaker where scope = :scope;

-- name: try_breaker
-- The same; Postgres does not wait for it.
select scope from holdfast_breaker where scope = :scope;
