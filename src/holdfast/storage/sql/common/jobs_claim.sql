-- name: claimed_under
-- The jobs of a claim whose reply was lost. Index: holdfast_live_owned.
select @claimed(live)
  from holdfast_live as live join holdfast_job as job on job.id = live.id
 where live.owner = :owner and live.claim = :claim and live.state = 'running';

-- name: next_due
-- When a row becomes claimable by time alone. Index: holdfast_live_later.
select min(not_before) - :now from holdfast_live where due = 0;

-- name: routes_of_suspects
-- Where suspects wait for a worker; few. Index: holdfast_live_suspect.
select distinct route
  from holdfast_live as job
 where due = 3
   and not exists (select 1 from holdfast_queue as q where q.name = job.queue
                           and (q.state in ('paused', 'disabled') or q.cool_until > :now));

-- name: what_stands
-- When a row becomes claimable by time alone, and what else a worker must know. Each by the first row of an index or
-- of a small table, and not by `exists`, which Postgres may answer by reading the whole table.
select (select min(not_before) from holdfast_live where due = 0) - :now,
       (select route from holdfast_live where due = 1 order by route, priority desc, rank, id limit 1) is not null,
       (select route from holdfast_live where due = 3 order by route, priority desc, rank, id limit 1) is not null,
       (select id from holdfast_live where due = 2 order by lane, priority desc, rank, id limit 1) is not null,
       (select min(id) from holdfast_route) is not null,
       (select min(key) from holdfast_lane where standing = 1) is not null,
       (select min(scope) from holdfast_bucket) is not null,
       (select min(scope) from holdfast_breaker) is not null,
       (select min(name) from holdfast_queue) is not null,
       (select min(key) from holdfast_quota) is not null,
       (select min(expires_at) from holdfast_grant) - :now;
