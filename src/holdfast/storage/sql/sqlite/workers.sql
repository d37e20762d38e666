-- name: lock_worker
-- The write lock is held; Postgres locks the row exclusively against claims in flight.
select state from holdfast_worker
 where id = :id and (:certain = 1 or state = 'dead' or lease_until < :now or lease_until > :now + 2 * lease);

-- name: try_lock_worker
select state from holdfast_worker
 where id = :id and (:certain = 1 or state = 'dead' or lease_until < :now or lease_until > :now + 2 * lease);

-- name: page_of_lost
select id, epoch, attempts, max_attempts, crashes, losses, alone, deadline - :now,
       coalesce(retry, (select q.retry from holdfast_queue as q where q.name = holdfast_job.queue)), created_at, :now
  from holdfast_job where owner = :owner order by id limit :n;
