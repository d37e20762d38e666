-- name: count_ready
-- Each route and priority is found by one step on holdfast_live_ready; what is in it is counted up to a cap. The head is
-- the oldest of the first hundred: where fairness ranks the jobs, the first need not be the oldest.
with recursive routes(route) as (
    select min(route) from holdfast_live where due = 1
    union all
    select (select min(j.route) from holdfast_live as j where j.due = 1 and j.route > routes.route) from routes
     where routes.route is not null
), tiers(route, priority) as (
    select route, (select max(j.priority) from holdfast_live as j where j.due = 1 and j.route = routes.route) from routes
     where route is not null
    union all
    select route, (select max(j.priority) from holdfast_live as j
                    where j.due = 1 and j.route = tiers.route and j.priority < tiers.priority)
      from tiers where priority is not null
)
select (select j.queue from holdfast_live as j where j.due = 1 and j.route = tiers.route limit 1),
       (select count(*) from (select 1 from holdfast_live as j
                               where j.due = 1 and j.route = tiers.route and j.priority = tiers.priority
                               limit :cap) as first),
       (select min(not_before) from (select j.not_before from holdfast_live as j
                                      where j.due = 1 and j.route = tiers.route and j.priority = tiers.priority
                                      order by j.rank, j.id limit 100) as head)
  from tiers where priority is not null;

-- name: count_suspects
-- Few. Index: holdfast_live_suspect.
select queue, count(*), min(not_before)
  from (select queue, not_before from holdfast_live where due = 3 order by route limit :cap) as few group by queue;

-- name: count_later
-- Due ones wait for the next claim to mark them. Index: holdfast_live_later.
select queue, case when not_before <= :now then 1 else 0 end, reason, count(*), min(not_before)
  from (select queue, not_before, reason from holdfast_live where due = 0 order by not_before limit :cap) as few
 group by 1, 2, 3;

-- name: count_parked
-- Index: holdfast_live_parked.
select queue, count(*) from (select queue from holdfast_live where due = 2 order by lane limit :cap) as few
 group by queue;

-- name: count_parked_lanes
-- Index: holdfast_live_parked.
select lane, count(*) from (select lane from holdfast_live where due = 2 order by lane limit :cap) as few group by lane;

-- name: count_running
-- Index: holdfast_live_owned.
select queue, count(*) from (select queue from holdfast_live where owner is not null order by owner limit :cap) as few
 group by queue;

-- name: count_held
-- Index: holdfast_live_waiting.
select queue, state, count(*)
  from (select queue, state from holdfast_live where state in ('blocked', 'suspended') order by id limit :cap) as few
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

-- name: signs_of_minute
-- Whether there is anything to roll, and whether it has changed: each counted on an index alone, except running jobs.
select (select count(*) from holdfast_ended where finished_at >= :since and finished_at < :until),
       (select count(*) from holdfast_job where id >= :first_id and id < :last_id),
       (select count(*) from holdfast_attempt where ended_at >= :since and ended_at < :until),
       (select count(*) from holdfast_live where owner is not null and claimed_at >= :since and claimed_at < :until);

-- name: first_sign
-- The first moment with something to roll, by one step on an index each, except running jobs.
select min(at)
  from (select min(finished_at) as at from holdfast_ended where finished_at >= :since
        union all select min(ended_at) from holdfast_attempt where ended_at >= :since
        union all select min(claimed_at) from holdfast_live where owner is not null and claimed_at >= :since
        union all select created_at
          from (select created_at from holdfast_job where id >= :first_id and created_at >= :since order by id limit 1)
               as made) as signs;

-- name: roll_ended
-- Index: holdfast_ended_time. The task is in the row itself: in the index every end of a job would write it.
select queue, task, state, count(*) from holdfast_ended
 where finished_at >= :since and finished_at < :until
 group by 1, 2, 3;

-- name: roll_enqueued
-- Ids are made in the order of time, by the clock of the enqueuing client; a margin on both sides compensates for it.
select queue, task, count(*) from holdfast_any_job
 where id >= :first_id and id < :last_id and created_at >= :since and created_at < :until
 group by 1, 2;

-- name: roll_started
-- A run is either in progress, or ended in success, or is in the history.
select queue, task, sum(runs) from (
    select queue, task, count(*) as runs from holdfast_live
     where owner is not null and claimed_at >= :since and claimed_at < :until
     group by 1, 2
    union all
    select queue, task, count(*) from holdfast_ended
     where finished_at >= :since and finished_at < :later and state = 'succeeded'
       and claimed_at >= :since and claimed_at < :until
     group by 1, 2
    union all
    select job.queue, job.task, count(*)
      from holdfast_attempt as past join holdfast_any_job as job on job.id = past.job_id
     where past.ended_at >= :since and past.ended_at < :later
       and past.started_at >= :since and past.started_at < :until
     group by 1, 2) as parts
 group by 1, 2;

-- name: roll_again
-- Runs after which the job went back to waiting. The last run of a job that failed for good is not one of them.
select job.queue, job.task, past.outcome, count(*)
  from holdfast_attempt as past join holdfast_any_job as job on job.id = past.job_id
 where past.ended_at >= :since and past.ended_at < :until
   and past.outcome in ('failed', 'timeout', 'crashed', 'lost', 'throttled')
   and not (job.state = 'failed' and job.epoch = past.epoch + 1)
 group by 1, 2, 3;

-- name: roll_task_spreads
-- How the run times and waits of each task are distributed: rounded, by a fifth at most, and counted. Unlike
-- percentiles, the counts of several minutes can be added.
with ended as (
    select task, finished_at - claimed_at as run, claimed_at - not_before as wait from holdfast_ended
     where finished_at >= :since and finished_at < :until and state in ('succeeded', 'failed')
       and claimed_at is not null
)
select task, metric,
       case when value < 100 then (value + 5) / 10 * 10
            when value < 1000 then (value + 25) / 50 * 50
            when value < 10000 then (value + 250) / 500 * 500
            when value < 100000 then (value + 2500) / 5000 * 5000
            when value < 1000000 then (value + 25000) / 50000 * 50000
            when value < 10000000 then (value + 250000) / 500000 * 500000
            when value < 100000000 then (value + 2500000) / 5000000 * 5000000
            when value < 1000000000 then (value + 25000000) / 50000000 * 50000000
            when value < 10000000000 then (value + 250000000) / 500000000 * 500000000
            else (value + 2500000000) / 5000000000 * 5000000000 end,
       count(*), sum(value), max(value)
  from (select task, 'run' as metric, run as value from ended
        union all
        select task, 'wait', case when wait > 0 then wait else 0 end from ended) as samples
 group by 1, 2, 3;

-- name: metric_window
select queue, metric, minute, count, sum, p50, p95, p99, max from holdfast_metric
 where minute >= :since and minute < :until
 order by minute, queue, metric
 limit :n;

-- name: metric_totals
select queue, metric, sum(count) from holdfast_metric
 where minute >= :since and minute < :until and p50 is null
 group by 1, 2;

-- name: metric_worst
-- Of each queue's latencies the minute with the greatest 99th percentile.
select queue, metric, minute, count, sum, p50, p95, p99, max
  from (select queue, metric, minute, count, sum, p50, p95, p99, max,
               row_number() over (partition by queue, metric order by p99 desc, minute desc) as place
          from holdfast_metric
         where minute >= :since and minute < :until and p50 is not null) as ranked
 where place = 1;

-- name: metric_series
select queue, metric, minute, count, sum, p50, p95, p99, max from holdfast_metric
 where queue = :queue and metric = :metric and minute >= :since and minute < :until
 order by minute;

-- name: prune_metrics
-- An hour's worth at a time.
delete from holdfast_metric
 where minute < :now - :kept and minute < (select min(minute) from holdfast_metric) + 3600000000;

-- name: task_minutes
select task, figures from holdfast_task_minute where minute >= :since and minute < :until;

-- name: prune_task_minutes
-- An hour's worth at a time.
delete from holdfast_task_minute
 where minute < :now - :kept and minute < (select min(minute) from holdfast_task_minute) + 3600000000;

-- name: get_mark
select at, place from holdfast_mark where name = :name;

-- name: move_mark
-- Only if the mark is still where the caller read it.
insert into holdfast_mark (name, at, place) values (:name, :at, :place)
    on conflict (name) do update set at = excluded.at, place = excluded.place
 where holdfast_mark.at = :from_at and holdfast_mark.place = :from_place
returning name;

-- name: page_of_errors
-- Index: holdfast_attempt_ended. What ended a moment ago may still lack neighbours that commit later.
select past.ended_at, past.job_id, past.epoch, job.task, past.error
  from holdfast_attempt as past join holdfast_any_job as job on job.id = past.job_id
 where past.ended_at >= :at
   and (past.ended_at > :at or past.job_id > :job_id or past.job_id = :job_id and past.epoch > :epoch)
   and past.ended_at <= :now - :lag
   and past.error is not null and past.outcome <> 'throttled'
 order by past.ended_at, past.job_id, past.epoch
 limit :n;

-- name: recent_failures
-- The newest failed runs. Index: holdfast_attempt_ended; a fixed number of its entries is read, however
-- few of them are the tenant's.
select past.ended_at, past.job_id, past.epoch, job.task, past.error, past.attempt, past.outcome,
       job.state, job.queue, job.tenant
  from (select ended_at, job_id, epoch, error, attempt, outcome from holdfast_attempt
         where ended_at >= :since
         order by ended_at desc, job_id desc, epoch desc limit :most) as past
  join holdfast_any_job as job on job.id = past.job_id
 where past.error is not null and past.outcome <> 'throttled'
   and (cast(:tenant as text) is null or job.tenant = :tenant)
 order by past.ended_at desc, past.job_id desc, past.epoch desc
 limit :n;

-- name: note_error
insert into holdfast_error (fingerprint, task, type, message, traceback, last_job, first_seen, last_seen, count)
values (:fingerprint, :task, :type, :message, :traceback, :last_job, :first_seen, :last_seen, :count)
    on conflict (fingerprint) do update
   set message = excluded.message, traceback = excluded.traceback, last_job = excluded.last_job,
       last_seen = excluded.last_seen, count = holdfast_error.count + excluded.count;

-- name: list_errors
select fingerprint, task, type, message, '', last_job, first_seen, last_seen, count from holdfast_error
 where (cast(:task as text) is null or task = :task)
   and (cast(:since as bigint) is null or last_seen >= :since)
 order by last_seen desc, fingerprint
 limit :n;

-- name: get_error
select fingerprint, task, type, message, traceback, last_job, first_seen, last_seen, count from holdfast_error
 where fingerprint = :fingerprint;

-- name: prune_errors
-- The oldest, and those beyond the cap: a text that cannot be grouped must not fill the store.
delete from holdfast_error
 where last_seen < :now - :kept
    or last_seen <= (select last_seen from holdfast_error order by last_seen desc limit 1 offset :cap);
