-- name: claim_signs
-- Whether rows have come due, and whether suspects wait. Both are rare: one round trip instead of two. By the
-- first row of each index: with `exists` and statistics the planner reads the table, 150 ms at 600,000 rows.
select coalesce((select min(not_before) from holdfast_live where due = 0) <= :now, false),
       (select route from holdfast_live where due = 3 order by route, priority desc, rank, id limit 1) is not null;

-- name: promote_due
update holdfast_live
   set due = case suspect when 1 then 3 else 1 end
 where id = any(array(select id from holdfast_live where due = 0 and not_before <= :now
                       order by not_before limit :n for update skip locked))
returning 1;

-- name: claim_jobs
-- Materialised: as a plain subquery a nested-loop plan may run it again and claim more than n. By an array: joined to
-- `head`, a generic plan that does not know n reads the whole table. The worker's row is locked in share, so that a
-- rescue of this worker either sees these rows or stops the claim.
-- `limits` is parsed once: 16.8 µs a job with a key, where parsing it twice took 18.2 (one run of each). A breaker is
-- noted here too: by hold_lanes, every job that has one was written twice.
-- `lone` says that nothing else is done in the transaction: then it claims all or nothing, where limits must be checked
-- or a start must be recorded.
-- A route may come in ranges of priorities, each from a rank on: the index is entered there, and not before.
with me as materialized (
    select 1 from holdfast_worker where id = :owner and state = 'alive' for key share
), head as materialized (
    select job.id, job.limits, job.tags
      from json_to_recordset(:routes::json) as r(route bigint, queue text, tier int, least int, most int, since bigint)
     cross join lateral (select id, priority, rank, limits, tags from holdfast_live
                          where due = 1 and route = r.route and priority >= coalesce(r.least, -32768)
                            and priority <= coalesce(r.most, 32767) and rank >= coalesce(r.since, -9223372036854775807)
                          order by priority desc, rank, id limit :n
                            for update skip locked) as job
     where exists (select 1 from me)
       and not exists (select 1 from holdfast_queue as q where q.name = r.queue
                           and (q.state in ('paused', 'disabled') or q.cool_until > :now))
     order by r.tier, job.priority desc, job.rank, job.id
     limit :n
), taken as (
    update holdfast_live as live
       set state = 'running', due = null, owner = :owner, claim = :claim, epoch = epoch + 1, attempts = attempts + 1,
           claimed_at = :now, started_at = coalesce(started_at, :now), reason = null,
           holds = case when strpos(limits, '"breaker"') > 0
                        then nullif('[' || concat_ws(',', (limits::json -> 'key')::text,
                                    '"breaker:' || substr((limits::json -> 'breaker')::text, 2)) || ']', '[]')
                        else '[' || (limits::json -> 'key')::text || ']' end,
           dedupe_held = case when dedupe_held is not null
                                   and (select job.dedupe_until from holdfast_job as job where job.id = live.id) <> 'start'
                              then dedupe_held end
     where live.id = any(array(select id from head))
       and (:lone::int = 0
            or (coalesce((select min(not_before) from holdfast_live where due = 0) > :now, true)
                and (select route from holdfast_live where due = 3 order by route, priority desc, rank, id limit 1) is null
                and not exists (select 1 from head where limits is not null or strpos(tags, '"webhook-on:*"') > 0)))
    returning live.*
)
select @claimed(taken) from taken join holdfast_job as job on job.id = taken.id;

-- name: claim_suspects
-- The same claim over holdfast_live_suspect. `alone` says that nothing else runs in the worker meanwhile.
with me as materialized (
    select 1 from holdfast_worker where id = :owner and state = 'alive' for key share
), head as materialized (
    select job.id
      from json_to_recordset(:routes::json) as r(route bigint, queue text, tier int)
     cross join lateral (select id, priority, rank from holdfast_live
                          where due = 3 and route = r.route
                          order by priority desc, rank, id limit :n
                            for update skip locked) as job
     where exists (select 1 from me)
       and not exists (select 1 from holdfast_queue as q where q.name = r.queue
                           and (q.state in ('paused', 'disabled') or q.cool_until > :now))
     order by r.tier, job.priority desc, job.rank, job.id
     limit :n
), taken as (
    update holdfast_live as live
       set state = 'running', due = null, owner = :owner, claim = :claim, epoch = epoch + 1, attempts = attempts + 1,
           claimed_at = :now, started_at = coalesce(started_at, :now), reason = null,
           holds = case when strpos(limits, '"breaker"') > 0
                        then nullif('[' || concat_ws(',', (limits::json -> 'key')::text,
                                    '"breaker:' || substr((limits::json -> 'breaker')::text, 2)) || ']', '[]')
                        else '[' || (limits::json -> 'key')::text || ']' end, alone = :alone,
           dedupe_held = case when dedupe_held is not null
                                   and (select job.dedupe_until from holdfast_job as job where job.id = live.id) <> 'start'
                              then dedupe_held end
     where live.id = any(array(select id from head))
    returning live.*
)
select @claimed(taken) from taken join holdfast_job as job on job.id = taken.id;
