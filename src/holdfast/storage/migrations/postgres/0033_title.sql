-- A job's title, for people.
-- oldest writer: 0032

alter table holdfast_job add column title text;

create or replace view holdfast_jobs as
select id, task, queue, tenant, state, reason, priority, attempts, max_attempts, crashes, owner, payload, result, error,
       to_timestamp(created_at / 1e6) as created_at,
       to_timestamp(not_before / 1e6) as not_before,
       to_timestamp(started_at / 1e6) as started_at,
       to_timestamp(finished_at / 1e6) as finished_at,
       created_by, title
  from holdfast_job;
