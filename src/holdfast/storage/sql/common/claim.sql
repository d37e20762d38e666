-- name: claimed_under
-- What a claim took whose reply was lost. Index: holdfast_job_owned.
select id, task, queue, route, tenant, payload, attempts, max_attempts, retry, timeout, deadline - :now, generation,
       epoch, suspect, crashes, tags, trace, created_at, priority, rank, limits, flow, inputs
  from holdfast_job
 where owner = :owner and claim = :claim and state = 'running';

-- name: next_due
-- When a row becomes claimable by time alone. Index: holdfast_job_later.
select min(not_before) - :now from holdfast_job where due = 0;

-- name: special_routes
-- Routes that ask for more than their queue; few.
select queue, requires, affinity, version from holdfast_route;

-- name: routes_of_suspects
-- Where suspects wait for a worker; few. Index: holdfast_job_suspect.
select distinct route
  from holdfast_job as job
 where due = 3
   and not exists (select 1 from holdfast_queue as q where q.name = job.queue
                           and (q.state in ('paused', 'disabled') or q.cool_until > :now));
