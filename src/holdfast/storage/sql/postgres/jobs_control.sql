-- These differ in how a list is passed, in the name of a function, and only Postgres locks rows.

-- name: look_at_jobs
select id, state, queue, route, due, reason, generation,
       case when dedupe_key is not null then @key(job) end,
       case when dedupe_key is not null then
            exists (select 1 from holdfast_live as twin
                     where twin.dedupe_held = @key(job)
                       and twin.id <> job.id) else false end,
       linked,
       case when linked = 1 then
            exists (select 1 from holdfast_flow as f where f.id = job.flow and f.finished_at is null)
            or exists (select 1 from holdfast_edge as e join holdfast_live as waiter on waiter.id = e.downstream
                        where e.upstream = job.id and e.kind = 'wait') else false end,
       case when linked = 1 then
            exists (select 1 from holdfast_flow as f
                     where f.id = job.flow and f.cancel_at is not null and f.finished_at is null) else false end, tenant, priority,
       owner, epoch, cancel_at is not null, not_before,
       exists (select 1 from holdfast_grant as granted where granted.job_id = job.id)
  from holdfast_any_job as job where id = any(array(select json_array_elements_text(:ids::json))) order by id;

-- name: lock_jobs
-- Wherever they are, and in one order in every transaction: by id.
select holdfast_lock_jobs(array(select json_array_elements_text(:ids::json)));

-- name: retry_each
-- A new generation of a job that `revive_each` has moved: attempts from zero, history kept, no stale result, no deadline
-- that has passed.
update holdfast_live as job
   set state = 'ready', due = 1, reason = 'replay', not_before = :now, rank = :now, generation = generation + 1,
       past_attempts = past_attempts + attempts,
       attempts = 0, crashes = 0, losses = 0, suspect = 0, epoch = epoch + 1, cancel_at = null, cancel_reason = null,
       finished_at = null, finished_epoch = null, result = null,
       deadline = case when deadline > :now then deadline end
  from unnest(:id::text[]) with ordinality as item(id, n)
 where job.id = item.id and finished_at is not null
returning item.n, job.id;

-- name: revive_each
-- Moves an ended job back to the live ones, unless another live job holds its dedupe key.
with old as materialized (
    select @ended(ended), job.limits, item.held, item.n
      from unnest(:id::text[], :held::text[]) with ordinality as item(id, held, n)
      join holdfast_ended as ended on ended.id = item.id
      join holdfast_job as job on job.id = ended.id
     where ended.generation < :max_generation
       and (item.held is null or not exists (select 1 from holdfast_live as twin where twin.dedupe_held = item.held))
     order by ended.id
       for update of ended
), moved as (
    insert into holdfast_live (@ended, limits, dedupe_held)
    select @ended, limits, held from old
        on conflict do nothing
    returning id
), gone as (
    delete from holdfast_ended where id = any(array(select id from moved))
)
select old.n, old.id from old join moved on moved.id = old.id;

-- name: cancel_each
update holdfast_live as job
   set state = 'cancelled', due = null, reason = :reason, cancel_at = :now, cancel_reason = :reason, epoch = epoch + 1,
       dedupe_held = null, finished_at = :now
  from unnest(:id::text[]) with ordinality as item(id, n)
 where job.id = item.id and state in ('ready', 'blocked', 'suspended')
returning item.n, job.linked;

-- name: delete_each
delete from holdfast_job as job
 using unnest(:id::text[]) with ordinality as item(id, n)
 where job.id = item.id
   and (select place.linked = 0 and place.state not in ('running', 'suspended')
          from holdfast_any_job as place where place.id = item.id)
returning item.n, job.id;
