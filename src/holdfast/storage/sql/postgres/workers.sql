-- name: lock_worker
-- Exclusively: a claim holds the row in key share, so it is either finished and seen here, or finds the worker dead.
select state from holdfast_worker
 where id = :id and (:certain = 1 or state = 'dead' or lease_until < :now or lease_until > :now + 2 * lease)
   for update;

-- name: try_lock_worker
-- Does not wait for a claim in progress: one that never ends, because its process is frozen, must not block the
-- rescuer of all other workers.
select state from holdfast_worker
 where id = :id and (:certain = 1 or state = 'dead' or lease_until < :now or lease_until > :now + 2 * lease)
   for update skip locked;

-- name: page_of_lost
-- Jobs whose end is being written are left to the next rescue.
select live.id, live.epoch, live.attempts, job.max_attempts, live.crashes, live.losses, live.alone, live.deadline - :now,
       coalesce(job.retry, (select q.retry from holdfast_queue as q where q.name = live.queue)), job.created_at, :now
  from holdfast_live as live join holdfast_job as job on job.id = live.id
 where live.owner = :owner order by live.id limit :n
   for update of live skip locked;
