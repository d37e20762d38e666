-- name: hold_job
-- Not an end and not a loss of ownership: it keeps its epoch, its key and its due time.
update holdfast_job set state = 'blocked', due = null, reason = 'operator' where id = :id and state = 'ready'
returning queue;

-- name: release_job
update holdfast_job
   set state = 'ready', reason = case when attempts > 0 then 'retry' when not_before > :now then 'delay' else 'new' end,
       due = case when not_before > :now then 0 when suspect = 1 then 3 else 1 end
 where id = :id and state = 'blocked' and reason = 'operator'
returning queue;

-- name: move_job
update holdfast_job set queue = :queue, route = :route where id = :id and state in ('ready', 'blocked')
returning queue;

-- name: reschedule_job
-- A held job stays held; its release then looks at the new time.
update holdfast_job
   set not_before = coalesce(cast(:at as bigint), :now + cast(:delay as bigint)),
       rank = coalesce(cast(:at as bigint), :now + cast(:delay as bigint)),
       due = case when state = 'blocked' then null
                  when coalesce(cast(:at as bigint), :now + cast(:delay as bigint)) > :now then 0
                  when suspect = 1 then 3 else 1 end,
       reason = case when state = 'blocked' then reason when attempts > 0 then 'retry'
                     when coalesce(cast(:at as bigint), :now + cast(:delay as bigint)) > :now then 'delay' else 'new' end
 where id = :id and (state = 'ready' or state = 'blocked' and reason = 'operator')
returning queue;
