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
-- The distinct lanes of parked jobs, each found by one step on holdfast_live_parked.
with recursive lanes(lane) as (
    select min(lane) from holdfast_live where due = 2
    union all
    select (select min(j.lane) from holdfast_live j where j.due = 2 and j.lane > lanes.lane) from lanes
     where lanes.lane is not null
)
select lane from lanes where lane is not null;

-- name: first_parked
-- By the first row of holdfast_live_parked, and not by `exists`: Postgres may answer that by reading the whole table.
select id from holdfast_live where due = 2 and lane = :lane order by priority desc, rank, id limit 1;

-- name: count_parked_in
select count(*) from holdfast_live where due = 2 and lane = :lane;

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
                             or exists (select 1 from holdfast_live where due = 2 and lane = 'rate:' || holdfast_bucket.scope))
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
           and not exists (select 1 from holdfast_live where due = 2 and lane = 'rate:' || b.scope))
 limit 1;

-- name: quiet_buckets
update holdfast_bucket set ready_at = case when refilled_at > :now + 5000000 then :now end
 where ready_at is not null
   and (refilled_at > :now + 5000000
        or ready_at <= :now - 10000000
           and not exists (select 1 from holdfast_live where due = 2 and lane = 'rate:' || holdfast_bucket.scope));

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

-- name: ensure_breaker
insert into holdfast_breaker (scope, threshold, open_for, origin) values (:scope, :threshold, :open_for, :origin)
    on conflict (scope) do update
   set threshold = excluded.threshold, open_for = excluded.open_for, origin = excluded.origin
 where (holdfast_breaker.origin = 'code' or excluded.origin = 'operator')
   and (holdfast_breaker.threshold <> excluded.threshold or holdfast_breaker.open_for <> excluded.open_for
        or holdfast_breaker.origin <> excluded.origin);

-- name: inherit_breaker
insert into holdfast_breaker (scope, threshold, open_for, origin)
select :scope, threshold, open_for, 'code' from holdfast_breaker where scope = :followed
    on conflict (scope) do nothing;

-- name: get_breaker
-- A trial counts while its run lasts, however that ends. Without `exists`: Postgres may answer many of those by reading
-- the whole table once. Indexes: holdfast_job's own, holdfast_live_parked.
select scope, threshold, open_for, failures, opened_at, open_until, trial, trial_epoch, openings, origin, :now,
       (select job.epoch from holdfast_live as job where job.id = b.trial and job.state = 'running') = b.trial_epoch,
       (select job.id from holdfast_live as job where job.due = 2 and job.lane = 'breaker:' || b.scope
         order by job.priority desc, job.rank, job.id limit 1) is not null
  from holdfast_breaker as b
 where scope = :scope;

-- name: list_breakers
select scope, threshold, open_for, failures, opened_at, open_until, trial, trial_epoch, openings, origin, :now,
       (select job.epoch from holdfast_live as job where job.id = b.trial and job.state = 'running') = b.trial_epoch,
       (select job.id from holdfast_live as job where job.due = 2 and job.lane = 'breaker:' || b.scope
         order by job.priority desc, job.rank, job.id limit 1) is not null
  from holdfast_breaker as b
 order by scope;

-- name: restless_breakers
-- Those that are not closed, or that jobs wait for. Index: holdfast_live_parked.
select scope, threshold, open_for, failures, opened_at, open_until, trial, trial_epoch, openings, origin, :now,
       (select job.epoch from holdfast_live as job where job.id = b.trial and job.state = 'running') = b.trial_epoch,
       (select job.id from holdfast_live as job where job.due = 2 and job.lane = 'breaker:' || b.scope
         order by job.priority desc, job.rank, job.id limit 1) is not null
  from holdfast_breaker as b
 where open_until is not null
    or (select job.id from holdfast_live as job where job.due = 2 and job.lane = 'breaker:' || b.scope
         order by job.priority desc, job.rank, job.id limit 1) is not null
 order by scope;

-- name: write_breaker
update holdfast_breaker
   set failures = :failures, opened_at = :opened_at, open_until = :open_until, trial = :trial, trial_epoch = :epoch,
       openings = :openings
 where scope = :scope;

-- name: begin_trial
update holdfast_breaker set trial = :trial, trial_epoch = :epoch where scope = :scope and open_until is not null;

-- name: delete_breaker
delete from holdfast_breaker where scope = :scope returning scope;

-- name: ensure_quota
insert into holdfast_quota (key, tenant, name, allowed, span, concurrency, origin, created_at)
values (:key, :tenant, :name, :allowed, :span, :concurrency, :origin, :now)
    on conflict (key) do update
   set allowed = excluded.allowed, span = excluded.span, concurrency = excluded.concurrency, origin = excluded.origin
 where (holdfast_quota.origin = 'code' or excluded.origin = 'operator')
   and (holdfast_quota.allowed is distinct from excluded.allowed or holdfast_quota.span is distinct from excluded.span
        or holdfast_quota.concurrency is distinct from excluded.concurrency
        or holdfast_quota.origin <> excluded.origin)
returning key;

-- name: get_quota
-- A job counts as active while it runs under the epoch that was admitted.
select q.key, q.tenant, q.name, q.allowed, q.span, q.concurrency, q.admitted, q.refused, q.origin,
       (select count(*) from holdfast_admission as a where a.quota = q.key and a.at > :now - q.span),
       (select count(*) from holdfast_admission as a
         where a.quota = q.key and a.active = 1
           and case when a.job_id is null then case when a.until_at > :now then 1 else 0 end
                    when a.epoch = (select job.epoch from holdfast_live as job
                                     where job.id = a.job_id and job.state = 'running') then 1 else 0 end = 1)
  from holdfast_quota as q
 where q.key = :key;

-- name: find_quota
-- A tenant's own of that name, or else the one of no tenant.
select key from holdfast_quota where key in (:own, :shared) order by case key when :own then 0 else 1 end limit 1;

-- name: list_quotas
select key from holdfast_quota
 where key > :after and (cast(:tenant as text) is null or tenant = :tenant)
 order by key limit :n;

-- name: delete_quota
delete from holdfast_quota where key = :key returning key;

-- name: delete_admissions
delete from holdfast_admission where quota = :key;

-- name: count_admission
update holdfast_quota set admitted = admitted + :admitted, refused = refused + :refused where key = :key;

-- name: get_admission
select at, until_at, job_id, epoch,
       active = 1 and case when job_id is null then until_at > :now
                           else epoch = (select job.epoch from holdfast_live as job
                                          where job.id = holdfast_admission.job_id and job.state = 'running') end,
       :now
  from holdfast_admission
 where quota = :quota and holder = :holder;

-- name: room_in_window
-- The admission that must leave the window before there is room; none if there is. Index: holdfast_admission_at.
select at + :span - :now from holdfast_admission
 where quota = :quota and at > :now - :span
 order by at desc
 limit 1 offset :most;

-- name: put_admission
insert into holdfast_admission (quota, holder, at, until_at, job_id, epoch, active)
values (:quota, :holder, :now, :now + :kept, :job_id, :epoch, 1)
    on conflict (quota, holder) do update
   set at = excluded.at, until_at = excluded.until_at, job_id = excluded.job_id, epoch = excluded.epoch, active = 1;

-- name: take_again
-- Admitted before within the window: it counts once there, and again among the active ones.
update holdfast_admission
   set job_id = :job_id, epoch = :epoch, active = 1,
       until_at = case when until_at > :now + :kept then until_at else :now + :kept end
 where quota = :quota and holder = :holder;

-- name: sweep_window
-- Admissions that count neither in the window nor among the active ones.
delete from holdfast_admission
 where quota = :quota and until_at <= :now
   and (active = 0
        or job_id is null
        or coalesce((select job.epoch from holdfast_live as job
                      where job.id = holdfast_admission.job_id and job.state = 'running'), -1) <> epoch);

-- name: end_admission
update holdfast_admission set active = 0 where quota = :quota and holder = :holder and active = 1 returning holder;

-- name: expired_admissions
-- Index: holdfast_admission_until.
delete from holdfast_admission
 where (quota, holder) in (select quota, holder from holdfast_admission where until_at <= :now and active = 0
                            order by until_at limit :n)
returning quota;

-- name: set_total
insert into holdfast_queue (name, max_workers) values (:name, cast(:total as bigint))
    on conflict (name) do update set max_workers = excluded.max_workers;

-- name: list_totals
select name, max_workers from holdfast_queue where max_workers is not null order by name;

-- name: list_shares
select queue, worker, slots from holdfast_share order by queue, worker;

-- name: write_share
insert into holdfast_share (queue, worker, slots) values (:queue, :worker, :slots)
    on conflict (queue, worker) do update set slots = excluded.slots;

-- name: delete_share
delete from holdfast_share where queue = :queue and worker = :worker;
