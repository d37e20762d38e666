-- name: claimed_under
-- The jobs of a claim whose reply was lost. Index: holdfast_job_owned.
select @claimed
  from holdfast_job
 where owner = :owner and claim = :claim and state = 'running';

-- name: next_due
-- When a row becomes claimable by time alone. Index: holdfast_job_later.
select min(not_before) - :now from holdfast_job where due = 0;

-- name: special_routes
-- Routes that require more than their queue, without those long idle. Those of grants have no row of their own.
select queue, requires, affinity, version from holdfast_route
 where idle_since is null or idle_since > :now - :kept
union
select queue, requires, affinity, version from holdfast_grant;

-- name: route_marks
select id, idle_since from holdfast_route;

-- name: live_routes
-- The distinct routes of jobs that have not ended, one SELECT for each partial index of live jobs; of the ready ones,
-- which may be many, by one step on holdfast_job_ready for each route.
with recursive ready(route) as (
    select min(route) from holdfast_job where due = 1
    union all
    select (select min(j.route) from holdfast_job j where j.due = 1 and j.route > ready.route) from ready
     where ready.route is not null
)
select route from ready where route is not null
union select route from holdfast_job where due = 0
union select route from holdfast_job where due = 2
union select route from holdfast_job where due = 3
union select route from holdfast_job where owner is not null
union select route from holdfast_job where state in ('blocked', 'suspended');

-- name: route_idle_since
select idle_since from holdfast_route where id = :id;

-- name: use_route
update holdfast_route set idle_since = null where id = :id and idle_since is not null;

-- name: leave_route
update holdfast_route set idle_since = :now where id = :id and idle_since is null;

-- name: routes_without_jobs
-- Reads every job once: run rarely, and only if a route has been idle for a day.
select id from holdfast_route
 where idle_since <= :now - :kept and id not in (select route from holdfast_job);

-- name: delete_route
delete from holdfast_route where id = :id and idle_since <= :now - :kept;

-- name: routes_of_suspects
-- Where suspects wait for a worker; few. Index: holdfast_job_suspect.
select distinct route
  from holdfast_job as job
 where due = 3
   and not exists (select 1 from holdfast_queue as q where q.name = job.queue
                           and (q.state in ('paused', 'disabled') or q.cool_until > :now));

-- name: what_stands
-- When a row becomes claimable by time alone, and what else a worker must know. Each by the first row of an index or
-- of a small table, and not by `exists`, which Postgres may answer by reading the whole table.
select (select min(not_before) from holdfast_job where due = 0) - :now,
       (select route from holdfast_job where due = 1 order by route, priority desc, rank, id limit 1) is not null,
       (select route from holdfast_job where due = 3 order by route, priority desc, rank, id limit 1) is not null,
       (select id from holdfast_job where due = 2 order by lane, priority desc, rank, id limit 1) is not null,
       (select min(id) from holdfast_route) is not null,
       (select min(key) from holdfast_lane where standing = 1) is not null,
       (select min(scope) from holdfast_bucket) is not null,
       (select min(scope) from holdfast_breaker) is not null,
       (select min(name) from holdfast_queue) is not null,
       (select min(key) from holdfast_quota) is not null,
       (select min(expires_at) from holdfast_grant) - :now;
