-- name: count_ready
-- Each route and priority is found by one step on holdfast_job_ready; what is in it is counted up to a cap. The head is
-- the oldest of the first hundred: where fairness ranks the jobs, the first need not be the oldest.
with recursive routes(route) as (
    select min(route) from holdfast_job where due = 1
    union all
    select (select min(j.route) from holdfast_job as j where j.due = 1 and j.route > routes.route) from routes
     where routes.route is not null
), tiers(route, priority) as (
    select route, (select max(j.priority) from holdfast_job as j where j.due = 1 and j.route = routes.route) from routes
     where route is not null
    union all
    select route, (select max(j.priority) from holdfast_job as j
                    where j.due = 1 and j.route = tiers.route and j.priority < tiers.priority)
      from tiers where priority is not null
)
select (select j.queue from holdfast_job as j where j.due = 1 and j.route = tiers.route limit 1),
       (select count(*) from (select 1 from holdfast_job as j
                               where j.due = 1 and j.route = tiers.route and j.priority = tiers.priority
                               limit :cap) as first),
       (select min(not_before) from (select j.not_before from holdfast_job as j
                                      where j.due = 1 and j.route = tiers.route and j.priority = tiers.priority
                                      order by j.rank, j.id limit 100) as head)
  from tiers where priority is not null;

-- name: count_suspects
-- Few. Index: holdfast_job_suspect.
select queue, count(*), min(not_before)
  from (select queue, not_before from holdfast_job where due = 3 order by route limit :cap) as few group by queue;

-- name: count_later
-- Due ones wait for the next claim to mark them. Index: holdfast_job_later.
select queue, case when not_before <= :now then 1 else 0 end, reason, count(*), min(not_before)
  from (select queue, not_before, reason from holdfast_job where due = 0 order by not_before limit :cap) as few
 group by 1, 2, 3;

-- name: count_parked
-- Index: holdfast_job_parked.
select queue, count(*) from (select queue from holdfast_job where due = 2 order by lane limit :cap) as few
 group by queue;

-- name: count_parked_lanes
-- Index: holdfast_job_parked.
select lane, count(*) from (select lane from holdfast_job where due = 2 order by lane limit :cap) as few group by lane;

-- name: count_running
-- Index: holdfast_job_owned.
select queue, count(*) from (select queue from holdfast_job where owner is not null order by owner limit :cap) as few
 group by queue;

-- name: count_held
-- Index: holdfast_job_waiting.
select queue, state, count(*)
  from (select queue, state from holdfast_job where state in ('blocked', 'suspended') order by id limit :cap) as few
 group by 1, 2;

-- name: queue_switches
select name, state, cool_until - :now, max_workers from holdfast_queue;

-- name: set_pulse
insert into holdfast_pulse (worker, at, cpu, rss, claims, claim_p50, claim_p99, waiting)
values (:worker, :now, :cpu, :rss, :claims, :claim_p50, :claim_p99, :waiting)
    on conflict (worker) do update
   set at = excluded.at, cpu = excluded.cpu, rss = excluded.rss, claims = excluded.claims,
       claim_p50 = excluded.claim_p50, claim_p99 = excluded.claim_p99, waiting = excluded.waiting;

-- name: list_pulses
select worker, at, cpu, rss, claims, claim_p50, claim_p99, waiting from holdfast_pulse;

-- name: put_health
insert into holdfast_health (minute, health) values (:minute, :health) on conflict (minute) do nothing;

-- name: list_health
select health from holdfast_health where minute >= :since and minute < :until order by minute;

-- name: prune_health
delete from holdfast_health where minute < :now - :kept;

-- name: delete_pulses
delete from holdfast_pulse where worker not in (select id from holdfast_worker);
