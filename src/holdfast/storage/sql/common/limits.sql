-- name: ensure_lane
-- The newest capacity applies, but code does not overrule an operator.
insert into holdfast_lane (key, standing, capacity, origin) values (:key, :standing, :capacity, :origin)
    on conflict (key) do update
   set capacity = excluded.capacity, standing = excluded.standing, origin = excluded.origin
 where (holdfast_lane.origin = 'code' or excluded.origin = 'operator')
   and (holdfast_lane.capacity is distinct from excluded.capacity or holdfast_lane.standing <> excluded.standing
        or holdfast_lane.origin <> excluded.origin);

-- name: standing_lanes
select key from holdfast_lane where standing = 1;

-- name: list_lanes
-- The limits of tasks and queues first: keys may be many.
select key, standing, capacity, running, origin from holdfast_lane
 where capacity is not null order by standing desc, key limit :n;

-- name: unused_lanes
-- Lanes of keys in which nothing runs or was ranked lately. The next job that names one creates it again.
select key from holdfast_lane
 where key > :after and standing = 0 and running = 0 and origin = 'code' and last < :now - :kept
 order by key limit :n;

-- name: delete_unused_lane
delete from holdfast_lane
 where key = :key and standing = 0 and running = 0 and origin = 'code' and last < :now - :kept;

-- name: delete_lane
-- The row stays: jobs that run in it leave it when they end. Without it a limit that is set again would count from zero,
-- and from less than that when they have left.
update holdfast_lane set standing = 0, capacity = null, origin = 'code' where key = :key and standing = 1 returning key;

-- name: parked_lanes
-- The distinct lanes of parked jobs, each found by one step on holdfast_job_parked.
with recursive lanes(lane) as (
    select min(lane) from holdfast_job where due = 2
    union all
    select (select min(j.lane) from holdfast_job j where j.due = 2 and j.lane > lanes.lane) from lanes
     where lanes.lane is not null
)
select lane from lanes where lane is not null;

-- name: first_parked
-- By the first row of holdfast_job_parked, and not by `exists`: Postgres may answer that by reading the whole table.
select id from holdfast_job where due = 2 and lane = :lane order by priority desc, rank, id limit 1;

-- name: count_parked_in
select count(*) from holdfast_job where due = 2 and lane = :lane;

-- name: ensure_bucket
insert into holdfast_bucket (scope, capacity, refill, tokens, refilled_at, origin)
values (:scope, :capacity, :refill, :capacity, :now, :origin)
    on conflict (scope) do update
   set capacity = excluded.capacity, refill = excluded.refill, origin = excluded.origin, base = null, ready_at = null
 where holdfast_bucket.origin = 'code' or excluded.origin = 'operator';

-- name: set_tokens
-- On Postgres the time of a statement that waited for the lock is older than that of the one it waited for: going back
-- to it would refill the same moments twice. Only a clock that was really set back is followed.
update holdfast_bucket
   set tokens = :tokens,
       refilled_at = case when refilled_at > :at and refilled_at < :at + 5000000 then refilled_at else :at end,
       ready_at = case when base is not null
                        and (:waits = 1
                             or exists (select 1 from holdfast_job where due = 2 and lane = 'rate:' || holdfast_bucket.scope))
                       then :at + :wait end
 where scope = :scope;

-- name: make_keyed_bucket
-- If another transaction has just created it, its row is locked: it must not be pruned before the lock.
insert into holdfast_bucket (scope, capacity, refill, tokens, refilled_at, origin, base)
select :scope, capacity, refill, capacity, :now, 'code', scope from holdfast_bucket where scope = :base
    on conflict (scope) do update set scope = excluded.scope;

-- name: ready_buckets
-- Index: holdfast_bucket_ready.
select b.scope, case when b.tokens + (:now - b.refilled_at) / 1e6 * r.refill < r.capacity
                     then b.tokens + (:now - b.refilled_at) / 1e6 * r.refill else r.capacity end
  from holdfast_bucket as b join holdfast_bucket as r on r.scope = b.base
 where b.ready_at <= :now
 order by b.ready_at
 limit :n;

-- name: next_ready_bucket
select min(ready_at) - :now from holdfast_bucket where ready_at is not null;

-- name: idle_buckets
-- Those of keys that are full by now. Index: holdfast_bucket_keyed.
select b.scope from holdfast_bucket as r join holdfast_bucket as b on b.base = r.scope
 where r.base is null and b.refilled_at <= :now - 60000000 and b.ready_at is null
   and b.tokens + (:now - b.refilled_at) / 1e6 * r.refill >= r.capacity
 limit :n;

-- name: prune_idle_buckets
-- Checks again: a run may have taken a token since.
delete from holdfast_bucket
 where scope in (select b.scope from holdfast_bucket as r join holdfast_bucket as b on b.base = r.scope
                  where r.base is null and b.refilled_at <= :now - 60000000 and b.ready_at is null
                    and b.tokens + (:now - b.refilled_at) / 1e6 * r.refill >= r.capacity
                  limit :n)
   and base is not null and refilled_at <= :now - 60000000 and ready_at is null
returning scope;

-- name: vain_buckets
-- They had a token for jobs that were cancelled or deleted while they waited, or the clock was set back since.
select scope from holdfast_bucket as b
 where ready_at is not null
   and (refilled_at > :now + 5000000
        or ready_at <= :now - 10000000
           and not exists (select 1 from holdfast_job where due = 2 and lane = 'rate:' || b.scope))
 limit 1;

-- name: quiet_buckets
update holdfast_bucket set ready_at = case when refilled_at > :now + 5000000 then :now end
 where ready_at is not null
   and (refilled_at > :now + 5000000
        or ready_at <= :now - 10000000
           and not exists (select 1 from holdfast_job where due = 2 and lane = 'rate:' || holdfast_bucket.scope));

-- name: count_keyed_buckets
select base, count(*) from holdfast_bucket where base is not null group by base;

-- name: rate_without_bucket
-- A key's missing bucket, where its rate exists.
select 1 from holdfast_bucket as r
 where r.base is null and substr(:scope, 1, length(r.scope) + 1) = r.scope || '['
   and not exists (select 1 from holdfast_bucket where scope = :scope)
 limit 1;

-- name: bucket_scopes
select scope from holdfast_bucket where base is null;

-- name: list_buckets
select scope, capacity, refill, tokens, refilled_at, origin, :now from holdfast_bucket
 where base is null
 order by scope;

-- name: empty_bucket
-- After a real refusal by another service: its view of the rate is the true one.
update holdfast_bucket set tokens = 0, refilled_at = :now where scope = :scope returning scope;

-- name: delete_bucket
-- With the buckets of its keys.
delete from holdfast_bucket where scope = :scope or base = :scope returning scope;

-- name: cool_queue
-- Opened once per window: a hundred workers that meet the same limit are one event. The delay doubles with each window
-- since the queue last recovered, up to `most`, and is never less than what was requested.
insert into holdfast_queue (name, throttles, cool_until) values (:name, 1, :now + :delay)
    on conflict (name) do update
   set throttles = case when holdfast_queue.throttles < 30 then holdfast_queue.throttles + 1 else 30 end,
       cool_until = :now + case when :delay >= :most then :delay
                                when cast(:delay as bigint) * (cast(1 as bigint) << cast(holdfast_queue.throttles as integer))
                                     > :most then :most
                                else cast(:delay as bigint) * (cast(1 as bigint) << cast(holdfast_queue.throttles as integer))
                           end
 where holdfast_queue.cool_until is null or holdfast_queue.cool_until <= :now
returning throttles;

-- name: warm_queue
-- A success that began before the window ended proves nothing, so it counts only some time after.
update holdfast_queue set throttles = 0, cool_until = null
 where name = :name and throttles > 0 and cool_until <= :now - :patience
returning name;

-- name: throttled_queues
select name, throttles, cool_until from holdfast_queue where throttles > 0;

-- name: give_back_fair_rank
-- In the transaction that took the ranks, which has locked the lane.
update holdfast_lane set last = last - :width where key = :key;
