-- name: lock_lanes
-- The write lock is held; Postgres locks the rows, in one order in every transaction.
select key, capacity, running from holdfast_lane where key in (select value from json_each(:keys)) order by key;

-- name: ensure_lanes
-- A key's lane is created by the first job that names it; the newest capacity applies.
insert into holdfast_lane (key, capacity)
select value ->> '$.key', value ->> '$.capacity' from json_each(:lanes) where true
    on conflict (key) do update set capacity = excluded.capacity where holdfast_lane.origin = 'code';

-- name: move_lanes
-- One document for all lanes. Returns for each whether jobs are parked in it.
update holdfast_lane set running = running + item.value
  from json_each(:moves) as item
 where holdfast_lane.key = item.key
returning key, capacity - running,
          exists (select 1 from holdfast_live as job where job.due = 2 and job.lane = holdfast_lane.key);

-- name: hold_lanes
update holdfast_live set holds = item.holds
  from (select value ->> '$.id' as id, value ->> '$.holds' as holds from json_each(:held)) as item
 where holdfast_live.id = item.id and holdfast_live.state = 'running';

-- name: park_job
-- Claimed a moment ago in this transaction, and over a limit: as if it had never been claimed. A job whose first run
-- this would have been has not started, and holds its key as before: no handler of its generation has begun.
-- Without a lane it is blocked until a budget has room.
update holdfast_live
   set state = case when :lane is null then 'blocked' else 'ready' end,
       due = case when :lane is not null then 2 end, lane = :lane,
       reason = case when :lane is null then 'budget_exhausted' else 'limit' end, attempts = attempts - 1,
       started_at = case when attempts = 1 and started_at = claimed_at then null
                         else started_at end,
       dedupe_held = case when (select job.dedupe_until from holdfast_job as job where job.id = :id) = 'start' and attempts = 1
                               and (finished_epoch is null or started_at = claimed_at)
                               and not exists (select 1 from holdfast_live as twin
                                                where twin.dedupe_held = (select @key(job) from holdfast_job as job where job.id = :id))
                          then (select @key(job) from holdfast_job as job where job.id = :id) else dedupe_held end,
       epoch = epoch + 1, owner = null, claim = null, alone = 0, holds = null
 where id = :id and state = 'running' and epoch = :epoch;

-- name: park_alike
-- The first jobs of a route that need the same as a job that a quota or a budget has just refused: one by one, a long
-- backlog of them would delay others. None that has run before: it may have been admitted already.
update holdfast_live
   set state = case when cast(:lane as text) is null then 'blocked' else 'ready' end,
       due = case when cast(:lane as text) is not null then 2 end, lane = cast(:lane as text),
       reason = case when cast(:lane as text) is null then 'budget_exhausted' else 'limit' end
 where id in (select id from (select id, limits, tenant, started_at from holdfast_live
                                      where due = 1 and route = :route order by priority desc, rank, id limit :n)
                  where limits = :limits and tenant = :tenant and started_at is null)
returning id;

-- name: unpark_jobs
update holdfast_live
   set due = case suspect when 1 then 3 else 1 end, lane = null
 where id in (select id from holdfast_live where due = 2 and lane = :lane
                  order by priority desc, rank, id limit :n)
returning queue;

-- name: lock_bucket
-- The current tokens: refilled by the time that passed, and never drained by a clock that steps back.
-- A key's bucket has the size of its rate.
select min(coalesce(r.capacity, b.capacity),
           b.tokens + max(0, :now - b.refilled_at) / 1e6 * coalesce(r.refill, b.refill)),
       coalesce(r.refill, b.refill), :now
  from holdfast_bucket as b left join holdfast_bucket as r on r.scope = b.base
 where b.scope = :scope;

-- name: next_fair_rank
-- The head of the queue is its virtual time: a lane that was idle starts there, a busy one where its last job ends.
insert into holdfast_lane (key, last)
values (:key, coalesce((select rank from holdfast_live where due = 1 and route = :route
                         order by priority desc, rank, id limit 1), :now) + :width)
    on conflict (key) do update set last = max(excluded.last, holdfast_lane.last + :width)
returning last;

-- name: get_breakers
-- get_breaker for many. Differs: each database reads a list in its own way.
select scope, threshold, open_for, failures, opened_at, open_until, trial, trial_epoch, openings, origin, :now,
       (select job.epoch from holdfast_live as job where job.id = b.trial and job.state = 'running') = b.trial_epoch,
       (select job.id from holdfast_live as job where job.due = 2 and job.lane = 'breaker:' || b.scope
         order by job.priority desc, job.rank, job.id limit 1) is not null
  from holdfast_breaker as b
 where scope in (select value from json_each(:scopes));

-- name: lock_breaker
-- The write lock is held; Postgres locks the row.
select scope from holdfast_breaker where scope = :scope;

-- name: try_breaker
-- The same; Postgres does not wait for it.
select scope from holdfast_breaker where scope = :scope;

-- These differ in how a list is passed, and the write lock is held where Postgres locks rows.

-- name: end_admissions_of
update holdfast_admission set active = 0
 where job_id in (select value from json_each(:ids)) and active = 1
returning quota;

-- name: lock_quota
select key, allowed, span, concurrency from holdfast_quota where key = :key;
