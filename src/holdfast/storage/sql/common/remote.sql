-- name: held_jobs
-- The jobs that a worker owns, with the facts on which its next claim depends. Index: holdfast_live_owned.
select id, epoch, generation, attempts, queue, route, alone, cancel_at
  from holdfast_live
 where owner = :owner
 order by id;

-- name: holder_of_worker
select holder from holdfast_worker where id = :id;

-- name: last_position
select coalesce(max(position), 0) from holdfast_step where job_id = :job_id;
