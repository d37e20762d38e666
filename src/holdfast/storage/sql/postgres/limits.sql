-- name: lock_lanes
-- Joined: as `key = any(array(…))`, planned while there are few lanes, it compares every lane with every key, 49 µs a job
-- with 1,000 lanes, where this takes 11.
select lane.key, lane.capacity, lane.running
  from json_array_elements_text(:keys::json) as item(key)
  join holdfast_lane as lane on lane.key = item.key
 order by lane.key for update of lane;

-- name: ensure_lanes
-- A key's lane is created by the first job that names it; the newest capacity applies.
insert into holdfast_lane (key, capacity)
select key, capacity from json_to_recordset(:lanes::json) as item(key text, capacity bigint) order by key
    on conflict (key) do update set capacity = excluded.capacity where holdfast_lane.origin = 'code';

-- name: move_lanes
-- Returns for each lane whether jobs are parked there. Not in lock_lanes, whose snapshot is older than its locks. By
-- the first row of holdfast_live_parked, which has the default collation: with `exists`, or by the key's own, 200 lanes
-- beside 50,000 parked rows took 20 ms, and 1.5 s once there were statistics, where this takes 1.5 ms.
-- One object of deltas: 6.8 µs a job, where a list of objects took 8.7 (one run of each).
update holdfast_lane as lane set running = lane.running + item.delta::bigint
  from json_each_text(:moves::json) as item(key, delta)
 where lane.key = item.key
returning lane.key, lane.capacity - lane.running,
          (select job.id from holdfast_live as job where job.due = 2 and job.lane = lane.key collate "default"
            order by job.priority desc, job.rank, job.id limit 1) is not null;

-- name: hold_lanes
update holdfast_live as job set holds = item.holds
  from json_to_recordset(:held::json) as item(id text, holds text)
 where job.id = item.id and job.state = 'running';

-- name: park_job
-- Claimed a moment ago in this transaction, and over a limit: as if it had never been claimed. A job whose first run
-- this would have been has not started, and holds its key as before: no handler of its generation has begun.
-- Without a lane it is blocked until a budget has room.
update holdfast_live as job
   set state = case when item.lane is null then 'blocked' else 'ready' end,
       due = case when item.lane is not null then 2 end, lane = item.lane,
       reason = case when item.lane is null then 'budget_exhausted' else 'limit' end, attempts = job.attempts - 1,
       started_at = case when job.attempts = 1 and job.started_at = job.claimed_at
                         then null else job.started_at end,
       dedupe_held = case when given.dedupe_until = 'start' and job.attempts = 1
                               and (job.finished_epoch is null or job.started_at = job.claimed_at)
                               and not exists (select 1 from holdfast_live as twin
                                                where twin.dedupe_held = @key(given))
                          then @key(given)
                          else job.dedupe_held end,
       epoch = job.epoch + 1, owner = null, claim = null, alone = 0, holds = null
  from unnest(:id::text[], :epoch::bigint[], :lane::text[]) with ordinality as item(id, epoch, lane, n)
  join holdfast_job as given on given.id = item.id
 where job.id = item.id and job.state = 'running' and job.epoch = item.epoch
returning item.n;

-- name: park_alike
-- The first jobs of a route that need the same as a job that a quota or a budget has just refused: one by one, a long
-- backlog of them would delay others. None that has run before: it may have been admitted already.
update holdfast_live
   set state = case when cast(:lane as text) is null then 'blocked' else 'ready' end,
       due = case when cast(:lane as text) is not null then 2 end, lane = cast(:lane as text),
       reason = case when cast(:lane as text) is null then 'budget_exhausted' else 'limit' end
 where id = any(array(select id from holdfast_live
                       where id = any(array(select id from (select id, limits, tenant, started_at from holdfast_live
                                                             where due = 1 and route = :route
                                                             order by priority desc, rank, id limit :n) as head
                                             where limits = :limits and tenant = :tenant and started_at is null))
                         and due = 1
                       order by id
                         for update skip locked))
returning id;

-- name: unpark_jobs
update holdfast_live
   set due = case suspect when 1 then 3 else 1 end, lane = null
 where id = any(array(select id from holdfast_live where due = 2 and lane = :lane
                       order by priority desc, rank, id limit :n for update skip locked))
returning queue;

-- name: lock_bucket
-- The current tokens: refilled by the time that passed, and never drained by a clock that steps back.
-- A key's bucket has the size of its rate.
select least(coalesce((select r.capacity from holdfast_bucket as r where r.scope = b.base), b.capacity),
             b.tokens + greatest(0, :now - b.refilled_at) / 1e6
                        * coalesce((select r.refill from holdfast_bucket as r where r.scope = b.base), b.refill)),
       coalesce((select r.refill from holdfast_bucket as r where r.scope = b.base), b.refill), :now
  from holdfast_bucket as b
 where scope = :scope
   for update;

-- name: next_fair_rank
-- The head of the queue is its virtual time: a lane that was idle starts there, a busy one where its last job ends.
insert into holdfast_lane (key, last)
values (:key, coalesce((select rank from holdfast_live where due = 1 and route = :route
                         order by priority desc, rank, id limit 1), :now) + :width)
    on conflict (key) do update set last = greatest(excluded.last, holdfast_lane.last + :width)
returning last;

-- name: get_breakers
-- get_breaker for many. Joined, as in lock_lanes: a list of keys may be compared with every breaker.
select scope, threshold, open_for, failures, opened_at, open_until, trial, trial_epoch, openings, origin, :now,
       (select job.epoch from holdfast_live as job where job.id = b.trial and job.state = 'running') = b.trial_epoch,
       (select job.id from holdfast_live as job where job.due = 2 and job.lane = 'breaker:' || b.scope
         order by job.priority desc, job.rank, job.id limit 1) is not null
  from json_array_elements_text(:scopes::json) as item(wanted)
  join holdfast_breaker as b on b.scope = item.wanted;

-- name: lock_breaker
select scope from holdfast_breaker where scope = :scope for update;

-- name: try_breaker
-- Lanes are locked already: waiting here could deadlock.
select scope from holdfast_breaker where scope = :scope for update skip locked;

-- These differ in how a list is passed. Only here are rows locked: budgets by key, always in one order, and
-- after the job whose run reserves; a waiting job that another transaction has locked is skipped.

-- name: end_admissions_of
update holdfast_admission set active = 0
 where job_id = any(array(select json_array_elements_text(:ids::json))) and active = 1
returning quota;

-- name: lock_quota
select key, allowed, span, concurrency from holdfast_quota where key = :key order by key for update;
