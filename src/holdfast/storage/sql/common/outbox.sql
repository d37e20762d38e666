-- name: hasten_entries
-- Retry now: entries that come due later. Index: holdfast_live_queued.
update holdfast_live
   set due = case suspect when 1 then 3 else 1 end, not_before = :now, rank = :now
 where queue = :queue and due = 0 and (cast(:tenant as text) is null or tenant = :tenant)
returning id;

-- name: release_parked
-- Retry now: entries parked until an operator acts, not by an operator or behind another. Index: holdfast_live_blocked.
update holdfast_live
   set state = 'ready', due = case suspect when 1 then 3 else 1 end, reason = 'retry', not_before = :now, rank = :now
 where queue = :queue and state = 'blocked'
   and reason not in ('operator', 'order', 'dependencies', 'budget_exhausted', 'quota', 'route')
   and (cast(:tenant as text) is null or tenant = :tenant)
returning id;

-- name: end_cooling
update holdfast_queue set cool_until = :now where name = :queue and cool_until > :now returning name;

-- name: entries_in
-- Every entry of an outbox, each part by an index of its own: ended, ready, running, blocked.
select (select count(*) from holdfast_ended where finished_at is not null and task = :queue and queue = :queue)
     + (select count(*) from holdfast_live where due is not null and queue = :queue)
     + (select count(*) from holdfast_live where owner is not null and queue = :queue)
     + (select count(*) from holdfast_live where state = 'blocked' and queue = :queue);

-- name: evictable_entries
-- The oldest that have ended in a state. Index: holdfast_ended_task.
select id from holdfast_ended
 where finished_at is not null and task = :queue and queue = :queue and state = :state and linked = 0
 order by id
 limit :n;

-- name: abandoned_entries
-- Index: holdfast_ended_unsuccessful.
select ended.id, job.payload, ended.generation
  from holdfast_ended as ended join holdfast_job as job on job.id = ended.id
 where ended.state <> 'succeeded' and ended.state = 'failed' and ended.queue = :queue
   and job.created_at <= :now - :older and (cast(:tenant as text) is null or ended.tenant = :tenant)
 order by ended.id;

-- name: note_order
insert into holdfast_outbox_order (queue, key, job_id) values (:queue, :key, :job_id)
    on conflict (job_id) do nothing
returning seq;

-- name: stalled_order
-- Keys of entries that wait for earlier ones, all of which have ended.
select distinct mine.key
  from holdfast_live as job
  join holdfast_outbox_order as mine on mine.job_id = job.id
 where job.state = 'blocked' and job.queue = :queue and job.reason = 'order'
   and not exists (select 1 from holdfast_outbox_order as earlier
                     join holdfast_live as ahead on ahead.id = earlier.job_id
                    where earlier.queue = mine.queue and earlier.key = mine.key and earlier.seq < mine.seq)
 limit 100;

-- name: orphaned_order
select place.job_id from holdfast_outbox_order as place
 where not exists (select 1 from holdfast_job as job where job.id = place.job_id)
 limit :n;
