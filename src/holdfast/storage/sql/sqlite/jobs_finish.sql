-- name: succeed_job
-- A success stands even where a cancel was requested meanwhile. One statement for a batch. `+owner` rules out its index,
-- which would be read to its end for each row.
insert into holdfast_ended (@ended)
select @success(live, item.value ->> '$.result')
  from json_each(:items) as item
 cross join holdfast_live as live on live.id = item.value ->> '$.id'
 where live.state = 'running' and +live.owner = :owner and live.epoch = item.value ->> '$.epoch'
returning id, finished_epoch, 'succeeded', queue, task, tenant, attempts, tags, flow, linked, holds;
-- then:
delete from holdfast_live where id in (select value from json_each(:ids));

-- name: settle_job
-- Every outcome but success. A requested cancel turns each of them into `cancelled`. What a rescuer writes
-- (`by_owner` 0) is not the outcome that the lost owner may still try to record. A job that was lost keeps its place.
-- One whose first run did not begin (`unbegun`) has not started, and holds its key as before.
update holdfast_live
   set state = case when cancel_at is null then :state else 'cancelled' end,
       reason = case when cancel_at is null then :reason else cancel_reason end,
       due = case when cancel_at is null and :state = 'ready'
                  then case when :delay > 0 then 0 when coalesce(:suspect, suspect) = 1 then 3 else 1 end end,
       not_before = case when :state = 'ready' then :now + :delay else not_before end,
       rank = case when :state = 'ready' and :loss = 0 then :now + :delay else rank end,
       attempts = attempts - :refund,
       crashes = crashes + :crash,
       losses = case :suspect when 0 then 0 else losses + :loss end,
       suspect = coalesce(:suspect, suspect),
       alone = 0,
       route = coalesce(:route, route),
       deadline = coalesce(min(deadline, :deadline), deadline, :deadline),
       error = coalesce(:error, error),
       finished_at = case when cancel_at is not null or :terminal = 1 then :now end,
       finished_epoch = case when :by_owner = 1 then epoch else finished_epoch end,
       epoch = epoch + 1,
       started_at = case when :unbegun = 1 and attempts = 1 and started_at = claimed_at then null
                         else started_at end,
       dedupe_held = case when cancel_at is not null or :terminal = 1 then null
                          when :unbegun = 1 and attempts = 1
                               and (select job.dedupe_until from holdfast_job as job where job.id = :id) = 'start'
                               and (finished_epoch is null or started_at = claimed_at)
                               and not exists (select 1 from holdfast_live as twin
                                                where twin.dedupe_held = (select @key(job) from holdfast_job as job where job.id = :id))
                          then (select @key(job) from holdfast_job as job where job.id = :id)
                          else dedupe_held end,
       owner = null,
       claim = null
 where id = :id and state = 'running' and owner = :owner and epoch = :epoch
returning state, generation, attempts + :refund, claimed_at, queue, linked, holds;

-- name: record_attempt
insert into holdfast_attempt (job_id, epoch, generation, attempt, outcome, worker, started_at, ended_at, error)
values (:job_id, :epoch, :generation, :attempt, :outcome, :worker, :started_at, :now, :error)
    on conflict do nothing;

-- name: expire_jobs
-- A running job's deadline is enforced by its worker; every other live job ends here.
update holdfast_live
   set state = case when reason = 'no_handler' then 'failed' else 'expired' end, due = null,
       reason = case when reason = 'no_handler' then reason else 'deadline' end,
       epoch = epoch + 1, dedupe_held = null, finished_at = :now
 where id in (select id from holdfast_live
                  where deadline <= :now and state <> 'running' order by deadline limit :n)
returning id, linked;
