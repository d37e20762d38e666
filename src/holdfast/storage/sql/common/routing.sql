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
-- which may be many, by one step on holdfast_live_ready for each route.
with recursive ready(route) as (
    select min(route) from holdfast_live where due = 1
    union all
    select (select min(j.route) from holdfast_live j where j.due = 1 and j.route > ready.route) from ready
     where ready.route is not null
)
select route from ready where route is not null
union select route from holdfast_live where due = 0
union select route from holdfast_live where due = 2
union select route from holdfast_live where due = 3
union select route from holdfast_live where owner is not null
union select route from holdfast_live where state in ('blocked', 'suspended');

-- name: route_idle_since
select idle_since from holdfast_route where id = :id;

-- name: use_route
update holdfast_route set idle_since = null where id = :id and idle_since is not null;

-- name: leave_route
update holdfast_route set idle_since = :now where id = :id and idle_since is null;

-- name: routes_without_jobs
-- Reads every job once: run rarely, and only if a route has been idle for a day.
select id from holdfast_route
 where idle_since <= :now - :kept and id not in (select route from holdfast_live union select route from holdfast_ended);

-- name: delete_route
delete from holdfast_route where id = :id and idle_since <= :now - :kept;

-- name: set_resident
update holdfast_worker set resident = :resident where id = :id;

-- name: loaded_elsewhere
select resident from holdfast_worker where id <> :id and state = 'alive' and resident <> '[]';

-- name: write_grant
insert into holdfast_grant (job_id, worker, route, queue, requires, affinity, version, granted_at, expires_at)
values (:job_id, :worker, :route, :queue, :requires, :affinity, :version, :now, :now + :expires)
    on conflict (job_id) do update
       set worker = excluded.worker, route = excluded.route, queue = excluded.queue, requires = excluded.requires,
           affinity = excluded.affinity, version = excluded.version, granted_at = excluded.granted_at,
           expires_at = excluded.expires_at
returning job_id, worker, granted_at, expires_at, 0;

-- name: get_grant
select job_id, worker, granted_at, expires_at, expires_at <= :now from holdfast_grant where job_id = :job_id;

-- name: granted_route
select worker, route, queue, requires, affinity, version from holdfast_grant where job_id = :job_id;

-- name: list_grants
select job_id, worker, granted_at, expires_at, expires_at <= :now
  from holdfast_grant
 where (cast(:tenant as text) is null
        or exists (select 1 from holdfast_job as job where job.id = holdfast_grant.job_id and job.tenant = :tenant))
 order by expires_at, job_id limit :n;

-- name: expired_grants
-- Index: holdfast_grant_expiry.
select job_id from holdfast_grant where expires_at <= :now order by expires_at limit :n;

-- name: hold_route
-- The update that changes nothing locks the row: jobs before their grants, as a claim does.
update holdfast_live set route = route where id = :id returning route, queue, state;

-- name: hold_ended_route
update holdfast_ended set route = route where id = :id returning route, queue, state;

-- name: set_ended_route
update holdfast_ended set route = :route where id = :id returning queue;

-- name: set_route
update holdfast_live set route = :route where id = :id returning queue;

-- name: expired_grant
select job_id from holdfast_grant where job_id = :job_id and expires_at <= :now;

-- name: waiting_routes
-- Each route that has something to claim, by one step of holdfast_live_ready per route, with the first of its jobs.
with recursive routes(route) as (
    select min(route) from holdfast_live where due = 1
    union all
    select (select min(j.route) from holdfast_live j where j.due = 1 and j.route > routes.route) from routes
     where routes.route is not null
)
select j.route, j.queue, j.id
  from routes
  join holdfast_live as j
    on j.id = (select h.id from holdfast_live h where h.due = 1 and h.route = routes.route
                order by h.priority desc, h.rank, h.id limit 1)
 where routes.route is not null;

-- name: orphaned_grants
select g.job_id from holdfast_grant as g
 where not exists (select 1 from holdfast_job as job where job.id = g.job_id)
 limit :n;

-- name: insert_route
insert into holdfast_route (id, queue, requires, affinity, version)
values (:id, :queue, :requires, :affinity, :version)
    on conflict do nothing;

-- name: get_route
select queue, requires, affinity, version from holdfast_route where id = :id
union all
select queue, requires, affinity, version from holdfast_grant where route = :id
 limit 1;
