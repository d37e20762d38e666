-- name: get_schedule
-- With the time of the reading, so that one decision has one clock reading.
select tenant, name, task, payload, queue, options, tick_argument, expression, every, zone, missed, max_missed,
       overlap, jitter, cooldown, anchor, last_tick, next_tick, state, version, origin, edited, last_job, fired, skipped,
       last_error, pruned_to, created_at, updated_at,
       :now
  from holdfast_schedule where tenant = :tenant and name = :name;

-- name: hold_schedule
-- Locks its row as well: the next transaction that acts on the schedule sees what this one did. The tenant is a part of
-- the key, so no other tenant's schedule is found or locked.
update holdfast_schedule set version = version where tenant = :tenant and name = :name
returning tenant, name, task, payload, queue, options, tick_argument, expression, every, zone, missed, max_missed,
       overlap, jitter, cooldown, anchor, last_tick, next_tick, state, version, origin, edited, last_job, fired, skipped,
       last_error, pruned_to, created_at, updated_at,
       :now;

-- name: list_schedules
select tenant, name, task, payload, queue, options, tick_argument, expression, every, zone, missed, max_missed,
       overlap, jitter, cooldown, anchor, last_tick, next_tick, state, version, origin, edited, last_job, fired, skipped,
       last_error, pruned_to, created_at, updated_at,
       :now
  from holdfast_schedule
 where (cast(:tenant as text) is null or tenant = :tenant)
   and (tenant, name) > (:after_tenant, :after_name)
 order by tenant, name
 limit :n;

-- name: due_schedules
-- Page by page, so that one that cannot be fired does not hide the others. Index: holdfast_schedule_due.
select next_tick, tenant, name from holdfast_schedule
 where next_tick is not null and next_tick <= :now
   and (next_tick, tenant, name) > (:after_tick, :after_tenant, :after_name)
 order by next_tick, tenant, name
 limit :n;

-- name: next_schedule
select min(next_tick) - :now from holdfast_schedule where next_tick > :after;

-- name: count_schedules
select count(*) from holdfast_schedule;

-- name: insert_schedule
insert into holdfast_schedule (tenant, name, task, payload, queue, options, tick_argument, expression, every, zone,
                               missed, max_missed, overlap, jitter, cooldown, anchor, last_tick, next_tick, state,
                               origin, created_at, updated_at)
values (:tenant, :name, :task, :payload, :queue, :options, :tick_argument, :expression, :every, :zone,
        :missed, :max_missed, :overlap, :jitter, :cooldown, :seed, :seed, :next_tick, 'active', :origin, :now, :now)
    on conflict (tenant, name) do nothing
returning name;

-- name: change_schedule
-- The version is the guard: of two concurrent changes, the second fails.
update holdfast_schedule
   set task = :task, payload = :payload, queue = :queue, options = :options, tick_argument = :tick_argument,
       expression = :expression, every = :every, zone = :zone, missed = :missed, max_missed = :max_missed,
       overlap = :overlap, jitter = :jitter, cooldown = :cooldown, anchor = :anchor, last_tick = :last_tick,
       next_tick = :next_tick, state = :state, edited = :edited, last_error = :last_error, version = version + 1,
       updated_at = :now
 where tenant = :tenant and name = :name and version = :version
returning version;

-- name: advance_schedule
-- The compare-and-set that lets one process fire a tick: the version guards against an edit in between.
update holdfast_schedule
   set last_tick = :last_tick, next_tick = :next_tick, last_error = null
 where tenant = :tenant and name = :name and last_tick = :previous and version = :version and state = 'active'
returning name;

-- name: defer_schedule
update holdfast_schedule set next_tick = :until
 where tenant = :tenant and name = :name and last_tick = :previous and version = :version and state = 'active'
returning name;

-- name: count_firing
update holdfast_schedule
   set fired = fired + :fired, skipped = skipped + :skipped, last_job = coalesce(:last_job, last_job)
 where tenant = :tenant and name = :name;

-- name: break_schedule
update holdfast_schedule
   set state = 'broken', next_tick = null, last_error = :error, updated_at = :now
 where tenant = :tenant and name = :name and version = :version and state = 'active'
returning name;

-- name: note_schedule_error
update holdfast_schedule set last_error = :error where tenant = :tenant and name = :name and state = 'active';

-- name: insert_tick
insert into holdfast_cron_tick (tenant, schedule, tick, job_id) values (:tenant, :schedule, :tick, :job_id)
    on conflict (tenant, schedule, tick) do nothing
returning tick;

-- name: forget_tick
delete from holdfast_cron_tick where tenant = :tenant and schedule = :schedule and tick = :tick;

-- name: schedule_ticks
select tick, job_id from holdfast_cron_tick where tenant = :tenant and schedule = :schedule order by tick desc limit :n;

-- name: ticks_between
select tick from holdfast_cron_tick
 where tenant = :tenant and schedule = :schedule and tick >= :start and tick < :until;

-- name: live_jobs_of_schedule
-- States of its newest jobs, and of the one that was run by hand.
select job.id
  from holdfast_live as job
 where job.id = :last_job
    or job.id in (select recent.job_id
                    from (select job_id from holdfast_cron_tick where tenant = :tenant and schedule = :schedule
                           order by tick desc limit 20) as recent)
 order by job.id;

-- name: delete_schedule
delete from holdfast_schedule where tenant = :tenant and name = :name returning name;

-- name: delete_ticks
delete from holdfast_cron_tick where tenant = :tenant and schedule = :schedule;

-- name: forget_ticks_before
-- Never at or after the last tick: a second firing is recognised by those.
update holdfast_schedule
   set pruned_to = case when last_tick < :now - :keep then last_tick else :now - :keep end
 where exists (select 1 from holdfast_cron_tick as old
                where old.tenant = holdfast_schedule.tenant and old.schedule = holdfast_schedule.name
                  and old.tick < holdfast_schedule.last_tick
                  and old.tick < :now - :keep)
returning tenant, name, pruned_to;

-- name: prune_ticks
delete from holdfast_cron_tick
 where tenant = :tenant and schedule = :schedule
   and tick in (select old.tick from holdfast_cron_tick as old
                 where old.tenant = :tenant and old.schedule = :schedule and old.tick < :before
                 order by old.tick limit :n)
returning tick;
