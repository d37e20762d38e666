-- name: cancel_waiting
update holdfast_live
   set state = 'cancelled', due = null, reason = :reason, cancel_at = :now, cancel_reason = :reason, epoch = epoch + 1,
       dedupe_held = null, finished_at = :now
 where id = :id and state in ('ready', 'blocked', 'suspended')
returning linked;

-- name: request_cancel
-- The job stays running and keeps its epoch: a success within the grace stands.
update holdfast_live
   set cancel_at = coalesce(cancel_at, :now), cancel_reason = coalesce(cancel_reason, :reason)
 where id = :id and state = 'running'
returning owner;

-- name: force_cancel
update holdfast_live
   set state = 'cancelled', reason = :reason, cancel_at = coalesce(cancel_at, :now),
       cancel_reason = coalesce(cancel_reason, :reason), epoch = epoch + 1, owner = null, claim = null, alone = 0,
       dedupe_held = null, finished_at = :now
 where id = :id and state = 'running'
returning holds, linked;

-- name: run_job_now
-- Also jobs parked until an operator acts: this is that action.
update holdfast_live
   set state = 'ready', due = case suspect when 1 then 3 else 1 end, not_before = :now, rank = :now,
       reason = case when state <> 'blocked' then reason when attempts > 0 then 'retry' else 'new' end
 where id = :id
   and (due = 0 or state = 'blocked' and reason not in ('dependencies', 'budget_exhausted', 'quota', 'route'))
returning queue;

-- name: delete_job
-- A linked job ends first, so that the jobs that wait for it are notified.
delete from holdfast_job
 where id = :id and (select place.linked = 0 and place.state not in ('running', 'suspended')
                     from holdfast_any_job as place where place.id = :id)
returning id;

-- name: set_priority
update holdfast_live set priority = :priority
 where id = :id and state in ('ready', 'blocked', 'suspended') returning id;

-- name: hold_job
-- Not an end and not a loss of ownership: it keeps its epoch, its key and its due time.
update holdfast_live set state = 'blocked', due = null, reason = 'operator' where id = :id and state = 'ready'
returning queue;

-- name: release_job
update holdfast_live
   set state = 'ready', reason = case when attempts > 0 then 'retry' when not_before > :now then 'delay' else 'new' end,
       due = case when not_before > :now then 0 when suspect = 1 then 3 else 1 end
 where id = :id and state = 'blocked' and reason = 'operator'
returning queue;

-- name: move_job
update holdfast_live set queue = :queue, route = :route where id = :id and state in ('ready', 'blocked')
returning queue;

-- name: reschedule_job
-- A held job stays held; its release then looks at the new time.
update holdfast_live
   set not_before = coalesce(cast(:at as bigint), :now + cast(:delay as bigint)),
       rank = coalesce(cast(:at as bigint), :now + cast(:delay as bigint)),
       due = case when state = 'blocked' then null
                  when coalesce(cast(:at as bigint), :now + cast(:delay as bigint)) > :now then 0
                  when suspect = 1 then 3 else 1 end,
       reason = case when state = 'blocked' then reason when attempts > 0 then 'retry'
                     when coalesce(cast(:at as bigint), :now + cast(:delay as bigint)) > :now then 'delay' else 'new' end
 where id = :id and (state = 'ready' or state = 'blocked' and reason = 'operator')
returning queue;
