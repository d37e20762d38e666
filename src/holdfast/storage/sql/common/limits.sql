-- name: ensure_lane
-- The newest word on a capacity holds, but code does not overrule an operator.
insert into holdfast_lane (key, standing, capacity, origin) values (:key, :standing, :capacity, :origin)
    on conflict (key) do update
   set capacity = excluded.capacity, standing = excluded.standing, origin = excluded.origin
 where (holdfast_lane.origin = 'code' or excluded.origin = 'operator')
   and (holdfast_lane.capacity is distinct from excluded.capacity or holdfast_lane.standing <> excluded.standing
        or holdfast_lane.origin <> excluded.origin);

-- name: standing_lanes
select key from holdfast_lane where standing = 1;

-- name: list_lanes
select key, standing, capacity, running, origin from holdfast_lane where capacity is not null order by key limit :n;

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

-- name: ensure_bucket
insert into holdfast_bucket (scope, capacity, refill, tokens, refilled_at, origin)
values (:scope, :capacity, :refill, :capacity, :now, :origin)
    on conflict (scope) do update
   set capacity = excluded.capacity, refill = excluded.refill, origin = excluded.origin
 where holdfast_bucket.origin = 'code' or excluded.origin = 'operator';

-- name: set_tokens
-- On Postgres the time of a statement that waited for the lock is older than that of the one it waited for: going back
-- to it would refill the same moments twice. Only a clock that was really set back is followed.
update holdfast_bucket
   set tokens = :tokens,
       refilled_at = case when refilled_at > :at and refilled_at < :at + 5000000 then refilled_at else :at end
 where scope = :scope;

-- name: bucket_scopes
select scope from holdfast_bucket;

-- name: list_buckets
select scope, capacity, refill, tokens, refilled_at, origin, :now from holdfast_bucket order by scope;

-- name: empty_bucket
-- After a real refusal elsewhere: its view of the rate is the true one.
update holdfast_bucket set tokens = 0, refilled_at = :now where scope = :scope returning scope;

-- name: delete_bucket
delete from holdfast_bucket where scope = :scope returning scope;

-- name: cool_queue
-- Opened once per window: a hundred workers that meet the same limit are one event.
insert into holdfast_queue (name, throttles, cool_until) values (:name, 1, :now + :delay)
    on conflict (name) do update
   set throttles = case when holdfast_queue.throttles < 30 then holdfast_queue.throttles + 1 else 30 end,
       cool_until = excluded.cool_until
 where holdfast_queue.cool_until is null or holdfast_queue.cool_until <= :now
returning throttles;

-- name: warm_queue
-- A success that began before the window ended proves nothing, so it counts only some time after.
update holdfast_queue set throttles = 0, cool_until = null
 where name = :name and throttles > 0 and cool_until <= :now - :patience
returning name;

-- name: throttled_queues
select name, throttles, cool_until from holdfast_queue where throttles > 0;
