-- What operators do to a job is told with the job, signals are told by default, and a job that is deleted can still be
-- told of to its own webhook.
-- oldest writer: 0024

-- The target of an action on many jobs is a description such as "12 jobs", which is no id. A job that was deleted is
-- no longer there to be joined.
create or replace function holdfast_tell_operator() returns trigger language plpgsql as $$
begin
    insert into holdfast_event_inbox (
        at, kind, tenant, job, task, queue, tags, flow, reason, name, source, target)
    select new.at, 'operator', new.tenant,
           coalesce(job.id, case when new.action = 'job.delete' and strpos(new.target, ' ') = 0 then new.target end),
           job.task, job.queue, job.tags, case new.target_kind when 'flow' then new.target else job.flow end,
           new.reason, new.action, new.actor, new.target
      from (select 1) as one left join holdfast_job as job on new.target_kind = 'job' and job.id = new.target;
    return null;
end $$;

create or replace function holdfast_tell_signal() returns trigger language plpgsql as $$
begin
    insert into holdfast_event_inbox (at, kind, tenant, job, task, queue, tags, flow, name, source)
    select new.at, 'signal', job.tenant, job.id, job.task, job.queue, job.tags, job.flow, new.name, new.source
      from holdfast_job as job left join holdfast_queue as q on q.name = job.queue
     where job.id = new.job_id and coalesce(q.events, 'outcomes') <> 'off';
    return null;
end $$;

-- When its job was deleted. The row stays until webhooks were told of what was logged by then.
alter table holdfast_callback add column gone_at bigint;
create index holdfast_callback_gone on holdfast_callback (gone_at) where gone_at is not null;
