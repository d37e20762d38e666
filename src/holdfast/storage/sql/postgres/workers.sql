-- name: lock_worker
-- Exclusively: a claim holds the row in key share, so it is either finished and seen here, or finds the worker dead.
select state from holdfast_worker
 where id = :id and (:certain = 1 or state = 'dead' or lease_until < :now or lease_until > :now + 2 * lease)
   for update;

-- name: try_lock_worker
-- Does not wait for a claim in progress: one that never ends, because its process is frozen, must not block the
-- rescuer of all other workers.
select state from holdfast_worker
 where id = :id and (:certain = 1 or state = 'dead' or lease_until < :now or lease_until > :now + 2 * lease)
   for update skip locked;

-- name: page_of_lost
-- Jobs whose end is being written are left to the next rescue.
select live.id, live.epoch, live.attempts, job.max_attempts, live.crashes, live.losses, live.alone, live.deadline - :now,
       coalesce(job.retry, (select q.retry from holdfast_queue as q where q.name = live.queue)), job.created_at, :now
  from holdfast_live as live join holdfast_job as job on job.id = live.id
 where live.owner = :owner order by live.id limit :n
   for update of live skip locked;

-- name: look_at_rest
-- What a worker that rests must know: the microseconds until something is due, and whether there is work in the store.
-- Each by the first row of an index or of a small table. :queues are those that the worker serves.
select (select min(at)
          from (select min(not_before) as at from holdfast_live where due = 0
                union all select min(deadline) from holdfast_live where deadline is not null
                union all select min(wake_at) from holdfast_wait where wake_at is not null
                union all select min(next_tick) from holdfast_schedule where next_tick is not null
                union all select min(next_reset) from holdfast_budget where next_reset is not null
                union all select min(expires_at) from holdfast_grant) as timers) - :now,
       (select min(owner) from holdfast_live where owner is not null) is not null
       or (select min(lane) from holdfast_live where due = 2) is not null
       or exists (select 1 from holdfast_shortage)
       or exists (select 1 from holdfast_hop)
       or exists (select 1 from holdfast_join where sweep = 1)
       or exists (select 1 from holdfast_flow where cancel_upto is not null)
       or exists (select 1 from json_array_elements_text(:queues::json) as served(queue)
                    left join holdfast_queue as settings on settings.name = served.queue
                   where coalesce(settings.state, 'active') not in ('paused', 'disabled')
                     and exists (select 1 from holdfast_live as live
                                  where live.queue = served.queue and live.due in (1, 3)));
