-- name: record_step
-- The write lock is held, so that the job cannot be taken away before the commit; Postgres locks its row.
-- A wake-up instant is the only value that the database computes.
insert into holdfast_step (
    job_id, key, position, kind, name, called, value, error, attempts, attributes, epoch, started_at, ended_at)
select :job_id, :key, :position, :kind, :name, :called, coalesce(:value, cast(:now + :wake_after as text)), :error,
       :attempts, :attributes, :epoch, :now - :took, :now
  from holdfast_live
 where id = :job_id and state = 'running' and owner = :owner and epoch = :epoch
    on conflict do nothing
returning value, started_at, ended_at;

-- These differ in how a list is passed, and only Postgres locks rows.

-- name: forget_steps
delete from holdfast_step where job_id in (select value from json_each(:ids));
