-- name: lock_worker
-- The write lock is held; Postgres locks the row exclusively against claims in flight.
select state from holdfast_worker
 where id = :id and (:certain = 1 or state = 'dead' or lease_until < :now or lease_until > :now + 2 * lease);

-- name: try_lock_worker
select state from holdfast_worker
 where id = :id and (:certain = 1 or state = 'dead' or lease_until < :now or lease_until > :now + 2 * lease);

-- name: page_of_lost
select live.id, live.epoch, live.attempts, job.max_attempts, live.crashes, live.losses, live.alone, live.deadline - :now,
       coalesce(job.retry, (select q.retry from holdfast_queue as q where q.name = live.queue)), job.created_at, :now
  from holdfast_live as live join holdfast_job as job on job.id = live.id
 where live.owner = :owner order by live.id limit :n;
