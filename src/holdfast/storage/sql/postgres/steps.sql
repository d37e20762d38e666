-- name: record_step
-- The job's row is locked until the commit, so that it cannot be taken away between the check and the write: what goes
-- with the entry, such as a job that it enqueues, would otherwise happen twice. Concurrent steps share the lock.
-- A wake-up instant is the only value that the database computes.
with mine as materialized (
    select id from holdfast_live
     where id = :job_id and state = 'running' and owner = :owner and epoch = :epoch
       for share
)
insert into holdfast_step (
    job_id, key, position, kind, name, called, value, error, attempts, attributes, epoch, started_at, ended_at)
select :job_id, :key, :position, :kind, :name, :called,
       coalesce(:value, cast(:now + cast(:wake_after as bigint) as text)), :error, :attempts, :attributes, :epoch,
       :now - cast(:took as bigint), :now
  from mine
    on conflict do nothing
returning value, started_at, ended_at;

-- These differ in how a list is passed, and only here are rows locked: by id, in one order in every transaction.

-- name: forget_steps
delete from holdfast_step where job_id = any(array(select json_array_elements_text(:ids::json)));
