-- name: lock_breaker
select scope from holdfast_breaker where scope = :scope for update;

-- name: try_breaker
-- Lanes are locked already: waiting here could be waiting in a circle.
select scope from holdfast_breaker where scope = :scope for update skip locked;
