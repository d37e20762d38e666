-- name: affinity_heads
-- The first job of each route, by prefix equality on holdfast_live_ready and holdfast_live_suspect. Nothing is locked:
-- the claim skips jobs that other workers take meanwhile.
select r.route, job.due, r.tier, job.priority, job.rank, job.id, :now - job.not_before
  from json_to_recordset(:routes::json) as r(route bigint, queue text, tier int)
 cross join lateral ((select due, priority, rank, id, not_before from holdfast_live
                       where due = 1 and route = r.route
                       order by priority desc, rank, id limit 1)
                     union all
                     (select due, priority, rank, id, not_before from holdfast_live
                       where due = 3 and route = r.route
                       order by priority desc, rank, id limit 1)) as job
 where not exists (select 1 from holdfast_queue as q where q.name = r.queue
                      and (q.state in ('paused', 'disabled') or q.cool_until > :now));

-- name: take_grants
delete from holdfast_grant
 where job_id in (select value from json_array_elements_text(:ids::json))
returning job_id, worker, route, queue, requires, affinity, version;

-- name: forget_grants
delete from holdfast_grant where job_id in (select value from json_array_elements_text(:ids::json));
