-- A job that asks for it is told of whatever its queue tells: one that names a webhook by its end, one whose webhook
-- wants more by every transition.
-- oldest writer: 0014

drop trigger holdfast_job_told;
create trigger holdfast_job_told after update of state on holdfast_job
when new.state <> old.state and new.state not in ('running', 'succeeded') and coalesce(new.due, 0) <> 2
begin
    insert into holdfast_event (
        at, kind, tenant, job, task, queue, previous, state, reason, attempt, epoch, worker, tags, flow)
    select coalesce(new.finished_at, cast((julianday('now') - 2440587.5) * 86400000000 as integer)), 'job', new.tenant,
           new.id, new.task, new.queue, old.state, new.state, new.reason, old.attempts, old.epoch, old.owner, new.tags,
           new.flow
      from (select coalesce((select events from holdfast_queue where name = new.queue), 'outcomes') as told)
     where told = 'all' or instr(new.tags, '"webhook-on:*"') > 0
        or (new.finished_at is not null and (told = 'outcomes' or instr(new.tags, '"webhook:') > 0));
end;

-- Jobs that wait for signals by name, for the list of what is pending.
create index holdfast_wait_named on holdfast_wait (job_id) where instr(condition, '"names"') > 0;

-- A rate by key: the bucket of each key names the rate that it has its capacity and refill from.
alter table holdfast_bucket add column base text;
-- Of such a bucket, while jobs wait for it: when it has a token for the next of them.
alter table holdfast_bucket add column ready_at integer;
create index holdfast_bucket_ready on holdfast_bucket (ready_at) where ready_at is not null;
create index holdfast_bucket_keyed on holdfast_bucket (base, refilled_at) where base is not null;

-- What is enqueued when a job ends, as JSON; such a job is linked, so that its end is noted whoever ends it.
create table holdfast_hook (
    job_id text not null primary key,
    hooks  text not null
) without rowid;
