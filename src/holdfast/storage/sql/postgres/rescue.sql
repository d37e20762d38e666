-- name: lock_worker
-- Alone: a claim holds the row in key share, so it is either finished and seen here, or finds the worker dead.
select state from holdfast_worker
 where id = :id and (:certain = 1 or state = 'dead' or lease_until < :now)
   for update;

-- name: page_of_lost
select id, task, epoch, generation, attempts, max_attempts, crashes, alone, deadline - :now, claimed_at, reason
  from holdfast_job where owner = :owner order by id limit :n
   for update;
