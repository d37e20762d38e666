-- name: lock_worker
-- The write lock is held; Postgres locks the row alone against claims in flight.
select state from holdfast_worker
 where id = :id and (:certain = 1 or state = 'dead' or lease_until < :now or lease_until > :now + 2 * lease);

-- name: try_lock_worker
select state from holdfast_worker
 where id = :id and (:certain = 1 or state = 'dead' or lease_until < :now or lease_until > :now + 2 * lease);

-- name: page_of_lost
select id, task, epoch, generation, attempts, max_attempts, crashes, alone, deadline - :now, claimed_at, reason
  from holdfast_job where owner = :owner order by id limit :n;
