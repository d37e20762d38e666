-- These differ in how a list is passed, in the name of a function, and only Postgres locks rows.

-- name: look_at_jobs
select id, state, queue, route, due, reason, generation,
       case when dedupe_key is not null then tenant || chr(31) || dedupe_scope || chr(31) || dedupe_key end,
       case when dedupe_key is not null then
            exists (select 1 from holdfast_job as twin
                     where twin.dedupe_held = job.tenant || chr(31) || job.dedupe_scope || chr(31) || job.dedupe_key
                       and twin.id <> job.id) else false end,
       linked,
       case when linked = 1 then
            exists (select 1 from holdfast_flow as f where f.id = job.flow and f.finished_at is null)
            or exists (select 1 from holdfast_edge as e join holdfast_job as waiter on waiter.id = e.downstream
                        where e.upstream = job.id and e.kind = 'wait' and waiter.finished_at is null) else false end,
       case when linked = 1 then
            exists (select 1 from holdfast_flow as f
                     where f.id = job.flow and f.cancel_at is not null and f.finished_at is null) else false end, tenant, priority,
       owner, epoch, cancel_at is not null, not_before,
       exists (select 1 from holdfast_grant as granted where granted.job_id = job.id)
  from holdfast_job as job where id = any(array(select json_array_elements_text(:ids::json))) order by id;

-- name: lock_and_look
-- One job, in one statement. Only its own columns are certain to be from after the wait for its lock.
select id, state, queue, route, due, reason, generation,
       case when dedupe_key is not null then tenant || chr(31) || dedupe_scope || chr(31) || dedupe_key end,
       case when dedupe_key is not null then
            exists (select 1 from holdfast_job as twin
                     where twin.dedupe_held = job.tenant || chr(31) || job.dedupe_scope || chr(31) || job.dedupe_key
                       and twin.id <> job.id) else false end,
       linked,
       case when linked = 1 then
            exists (select 1 from holdfast_flow as f where f.id = job.flow and f.finished_at is null)
            or exists (select 1 from holdfast_edge as e join holdfast_job as waiter on waiter.id = e.downstream
                        where e.upstream = job.id and e.kind = 'wait' and waiter.finished_at is null) else false end,
       case when linked = 1 then
            exists (select 1 from holdfast_flow as f
                     where f.id = job.flow and f.cancel_at is not null and f.finished_at is null) else false end, tenant, priority,
       owner, epoch, cancel_at is not null, not_before,
       exists (select 1 from holdfast_grant as granted where granted.job_id = job.id)
  from holdfast_job as job where id = :id for update of job;

-- name: lock_jobs
-- In one order in every transaction: jobs by id.
select count(*)
  from (select 1 from holdfast_job where id = any(array(select json_array_elements_text(:ids::json)))
         order by id for update) as locked;

-- name: retry_each
-- Keyless jobs only: a key may be taken meanwhile, which is checked one by one.
update holdfast_job as job
   set state = 'ready', due = 1, reason = 'replay', not_before = :now, rank = :now, generation = generation + 1,
       past_attempts = past_attempts + attempts,
       attempts = 0, crashes = 0, losses = 0, suspect = 0, epoch = epoch + 1, cancel_at = null, cancel_reason = null,
       finished_at = null, finished_epoch = null, result = null,
       deadline = case when deadline > :now then deadline end
  from unnest(:id::text[]) with ordinality as item(id, n)
 where job.id = item.id and finished_at is not null and generation < :max_generation and dedupe_key is null
returning item.n, job.id;

-- name: cancel_each
update holdfast_job as job
   set state = 'cancelled', due = null, reason = :reason, cancel_at = :now, cancel_reason = :reason, epoch = epoch + 1,
       dedupe_held = null, finished_at = :now
  from unnest(:id::text[]) with ordinality as item(id, n)
 where job.id = item.id and state in ('ready', 'blocked', 'suspended')
returning item.n, job.linked;

-- name: delete_each
delete from holdfast_job as job
 using unnest(:id::text[]) with ordinality as item(id, n)
 where job.id = item.id and state <> 'running' and state <> 'suspended' and linked = 0
returning item.n, job.id;
