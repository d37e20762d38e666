-- These differ in how a list is passed, and only Postgres has rows that others may have locked.

-- name: outbox_signs
-- For each queue: whether something can be claimed now, and whether something is parked. By the first row of an index:
-- with `exists` and statistics the planner may read the table.
select r.queue,
       ((select route from holdfast_live where due = 1 and route = r.route order by priority desc, rank, id limit 1)
        is not null
        or (select route from holdfast_live where due = 3 and route = r.route order by priority desc, rank, id limit 1)
        is not null)
       and not exists (select 1 from holdfast_queue as q where q.name = r.queue
                       and (q.state in ('paused', 'disabled') or q.cool_until > :now)),
       (select id from holdfast_live where state = 'blocked' and queue = r.queue
           and reason not in ('operator', 'order', 'dependencies', 'budget_exhausted', 'quota', 'route')
         order by id limit 1) is not null
  from json_to_recordset(:routes::json) as r(route bigint, queue text);

-- name: unpark_entries
-- Spread over a while, from the oldest on. Failures from before they were parked no longer count.
with head as materialized (
    select id from holdfast_live
     where state = 'blocked' and queue = :queue
       and reason not in ('operator', 'order', 'dependencies', 'budget_exhausted', 'quota', 'route')
     order by id limit :most for update skip locked
), item as materialized (
    select id, row_number() over (order by id) - 1 as n from head
)
update holdfast_live as job
   set state = 'ready', due = 0, reason = 'unparked', attempts = 0, error = null,
       past_attempts = past_attempts + attempts,
       not_before = :now + 1 + item.n * :spread / :most, rank = :now + 1 + item.n * :spread / :most
  from item
 where job.id = item.id
returning job.id;

-- name: lock_entries
-- Those that another transaction has locked are left to it.
select id, state from holdfast_ended
 where id = any(array(select json_array_elements_text(:ids::json))) and finished_at is not null
 order by id
   for update skip locked;

-- name: look_at_order
-- The claimed entries that have a place in an order, and whether an earlier one, not among them, has not ended.
with item as materialized (
    select json_array_elements_text(:ids::json) as id
)
select mine.job_id, mine.seq,
       exists (select 1 from holdfast_outbox_order as earlier
                 join holdfast_live as ahead on ahead.id = earlier.job_id
                where earlier.queue = mine.queue and earlier.key = mine.key and earlier.seq < mine.seq
                  and not exists (select 1 from item where item.id = earlier.job_id))
  from holdfast_outbox_order as mine
 where mine.job_id = any(array(select id from item));

-- name: put_behind
-- In the transaction of the claim that took them: they were never started, and release the slots that it took.
update holdfast_live
   set state = 'blocked', reason = 'order', epoch = epoch + 1, attempts = attempts - 1, owner = null, claim = null
 where id = any(array(select json_array_elements_text(:ids::json))) and state = 'running' and owner = :owner
returning holds;

-- name: forget_order
delete from holdfast_outbox_order
 where job_id = any(array(select json_array_elements_text(:ids::json)))
returning queue, key;

-- name: places_in_order
select queue, key from holdfast_outbox_order where job_id = any(array(select json_array_elements_text(:ids::json)));

-- name: forget_delivered_order
delete from holdfast_outbox_order
 where job_id = any(array(select json_array_elements_text(:ids::json)))
   and exists (select 1 from holdfast_ended as job where job.id = job_id and job.state = 'succeeded');

-- name: release_next
-- The next entries of a key, in their order.
update holdfast_live
   set state = 'ready', due = case suspect when 1 then 3 else 1 end, reason = 'order', not_before = :now, rank = :now
 where id = any(array(select job.id
                        from holdfast_outbox_order as mine join holdfast_live as job on job.id = mine.job_id
                       where mine.queue = :queue and mine.key = :key and job.state = 'blocked'
                         and job.reason = 'order'
                       order by mine.seq limit :n for update of job skip locked))
returning id;

-- name: oldest_entries
-- When the oldest waiting, parked and abandoned entries were put, and when the newest was delivered.
-- By the first row of an index each: holdfast_live_queued, holdfast_live_blocked, holdfast_ended_unsuccessful,
-- holdfast_ended_task (the task of an entry is named like its queue).
select q.value,
       (select created_at from holdfast_job where id = (
            select id from holdfast_live where due is not null and queue = q.value order by id limit 1)),
       (select created_at from holdfast_job where id = (
            select id from holdfast_live where state = 'blocked' and queue = q.value order by id limit 1)),
       (select created_at from holdfast_job where id = (
            select id from holdfast_ended where state <> 'succeeded' and state = 'failed' and queue = q.value
             order by id limit 1)),
       (select finished_at from holdfast_ended
         where finished_at is not null and task = q.value and queue = q.value and state = 'succeeded'
         order by id desc limit 1)
  from json_array_elements_text(:queues::json) as q(value);
