-- These differ in how a list is passed, in the name of a function, and only Postgres locks rows.

-- name: look_at_jobs
select id, state, queue, route, due, reason, generation,
       case when dedupe_key is not null then @key(job) end,
       case when dedupe_key is not null then
            exists (select 1 from holdfast_live as twin
                     where twin.dedupe_held = @key(job)
                       and twin.id <> job.id) else 0 end,
       linked,
       case when linked = 1 then
            exists (select 1 from holdfast_flow as f where f.id = job.flow and f.finished_at is null)
            or exists (select 1 from holdfast_edge as e join holdfast_live as waiter on waiter.id = e.downstream
                        where e.upstream = job.id and e.kind = 'wait') else 0 end,
       case when linked = 1 then
            exists (select 1 from holdfast_flow as f
                     where f.id = job.flow and f.cancel_at is not null and f.finished_at is null) else 0 end, tenant, priority,
       owner, epoch, cancel_at is not null, not_before,
       exists (select 1 from holdfast_grant as granted where granted.job_id = job.id)
  from holdfast_any_job as job where id in (select value from json_each(:ids)) order by id;

-- name: lock_jobs
-- The write lock is held.
select count(:ids);

-- name: retry_each
-- A new generation of a job that `revive_each` has moved: attempts from zero, history kept, no stale result, no deadline
-- that has passed.
update holdfast_live
   set state = 'ready', due = 1, reason = 'replay', not_before = :now, rank = :now, generation = generation + 1,
       past_attempts = past_attempts + attempts,
       attempts = 0, crashes = 0, losses = 0, suspect = 0, epoch = epoch + 1, cancel_at = null, cancel_reason = null,
       finished_at = null, finished_epoch = null, result = null,
       deadline = case when deadline > :now then deadline end
 where id = :id and finished_at is not null
returning id;

-- name: revive_each
-- Moves an ended job back to the live ones, unless another live job holds its dedupe key.
insert into holdfast_live (@ended, limits, dedupe_held)
select @ended(ended), job.limits, :held
  from holdfast_ended as ended join holdfast_job as job on job.id = ended.id
 where ended.id = :id and ended.generation < :max_generation
   and (:held is null or not exists (select 1 from holdfast_live as twin where twin.dedupe_held = :held))
returning id;
-- then:
delete from holdfast_ended where id = :id;

-- name: cancel_each
update holdfast_live
   set state = 'cancelled', due = null, reason = :reason, cancel_at = :now, cancel_reason = :reason, epoch = epoch + 1,
       dedupe_held = null, finished_at = :now
 where id = :id and state in ('ready', 'blocked', 'suspended')
returning linked;

-- name: delete_each
delete from holdfast_job
 where id = :id and (select place.linked = 0 and place.state not in ('running', 'suspended')
                     from holdfast_any_job as place where place.id = :id)
returning id;
