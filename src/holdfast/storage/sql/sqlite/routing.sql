-- name: affinity_heads
-- The first job of each route, by prefix equality on holdfast_live_ready and holdfast_live_suspect. Differs: SQLite has
-- no lateral joins.
select r.value ->> '$.route', job.due, r.value ->> '$.tier', job.priority, job.rank, job.id, :now - job.not_before
  from json_each(:routes) as r
 cross join holdfast_live as job
    on job.id in ((select head.id from holdfast_live as head
                       where head.due = 1 and head.route = r.value ->> '$.route'
                       order by head.priority desc, head.rank, head.id limit 1),
                     (select head.id from holdfast_live as head
                       where head.due = 3 and head.route = r.value ->> '$.route'
                       order by head.priority desc, head.rank, head.id limit 1))
 where not exists (select 1 from holdfast_queue as q
                    where q.name = r.value ->> '$.queue'
                      and (q.state in ('paused', 'disabled') or q.cool_until > :now));

-- name: take_grants
-- Differs in how a list is passed.
delete from holdfast_grant
 where job_id in (select value from json_each(:ids))
returning job_id, worker, route, queue, requires, affinity, version;

-- name: forget_grants
-- Differs in how a list is passed.
delete from holdfast_grant where job_id in (select value from json_each(:ids));
