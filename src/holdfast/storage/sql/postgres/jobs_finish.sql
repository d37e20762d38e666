-- name: succeed_job
-- A success stands even where a cancel was requested meanwhile. One statement for a whole batch. The worker's
-- row is locked before its jobs, as a rescue does: otherwise finishing and then claiming would deadlock with one.
-- Rows are found by their ids, whatever the statistics say. By owner, whose index `coalesce` rules out, each batch
-- would read the dead entries of all before it. By id: 1.05 to 2.0 times the rate in five pairs of drains, 1.7 at the
-- median, on a busy machine.
with me as materialized (
    select 1 from holdfast_worker where id = :owner for key share
), item as materialized (
    select * from json_to_recordset(:items::json) as i(n int, id text, epoch bigint, result text)
), live as (
    delete from holdfast_live as job
     using item
     where job.id = any(array(select id from item)) and job.id = item.id
       and job.state = 'running' and coalesce(job.owner, '') = :owner and job.epoch = item.epoch
       and exists (select 1 from me)
    returning job.*, item.n, item.result as given
), ended as (
    insert into holdfast_ended (@ended)
    select @success(live, live.given) from live order by id
)
select n, 'succeeded', queue, task, tenant, attempts, tags, flow, linked, holds from live;

-- name: settle_job
-- Every outcome but success. A requested cancel turns each of them into `cancelled`. What a rescuer writes
-- (`by_owner` 0) is not the outcome that the lost owner may still try to record. A job that was lost keeps its place.
-- One whose first run did not begin (`unbegun`) has not started, and holds its key as before.
with me as materialized (
    select 1 from holdfast_worker where id = :owner for key share
)
update holdfast_live as job
   set state = case when job.cancel_at is null then item.state else 'cancelled' end,
       reason = case when job.cancel_at is null then item.reason else job.cancel_reason end,
       due = case when job.cancel_at is null and item.state = 'ready'
                  then case when item.delay > 0 then 0 when coalesce(item.suspect, job.suspect) = 1 then 3 else 1 end end,
       not_before = case when item.state = 'ready' then :now + item.delay else job.not_before end,
       rank = case when item.state = 'ready' and item.loss = 0 then :now + item.delay else job.rank end,
       attempts = job.attempts - item.refund,
       crashes = job.crashes + item.crash,
       losses = case item.suspect when 0 then 0 else job.losses + item.loss end,
       suspect = coalesce(item.suspect, job.suspect),
       alone = 0,
       route = coalesce(item.route, job.route),
       deadline = least(item.deadline, job.deadline),
       error = coalesce(item.error, job.error),
       finished_at = case when job.cancel_at is not null or item.terminal = 1 then :now end,
       finished_epoch = case when :by_owner = 1 then job.epoch else job.finished_epoch end,
       epoch = job.epoch + 1,
       started_at = case when item.unbegun = 1 and job.attempts = 1 and job.started_at = job.claimed_at then null
                         else job.started_at end,
       dedupe_held = case when job.cancel_at is not null or item.terminal = 1 then null
                          when item.unbegun = 1 and given.dedupe_until = 'start' and job.attempts = 1
                               and (job.finished_epoch is null or job.started_at = job.claimed_at)
                               and not exists (select 1 from holdfast_live as twin
                                                where twin.dedupe_held = @key(given))
                          then @key(given)
                          else job.dedupe_held end,
       owner = null,
       claim = null
  from unnest(:id::text[], :epoch::bigint[], :state::text[], :reason::text[], :delay::bigint[], :refund::int[],
              :crash::int[], :loss::int[], :suspect::smallint[], :route::bigint[], :deadline::bigint[],
              :error::text[], :terminal::int[], :unbegun::int[])
       with ordinality
    as item(id, epoch, state, reason, delay, refund, crash, loss, suspect, route, deadline, error, terminal, unbegun, n)
  join holdfast_job as given on given.id = item.id
 where job.id = any(:id::text[]) and job.id = item.id
   and job.state = 'running' and coalesce(job.owner, '') = :owner and job.epoch = item.epoch
   and exists (select 1 from me)
returning item.n, job.state, job.generation, job.attempts + item.refund, job.claimed_at, job.queue, job.linked, job.holds;

-- name: record_attempt
insert into holdfast_attempt (job_id, epoch, generation, attempt, outcome, worker, started_at, ended_at, error)
select item.job_id, item.epoch, item.generation, item.attempt, item.outcome, :worker, item.started_at, :now, item.error
  from unnest(:job_id::text[], :epoch::bigint[], :generation::int[], :attempt::int[], :outcome::text[],
              :started_at::bigint[], :error::text[])
    as item(job_id, epoch, generation, attempt, outcome, started_at, error)
    on conflict do nothing
returning 0;

-- name: expire_jobs
-- A running job's deadline is enforced by its worker; every other live job ends here.
update holdfast_live
   set state = case when reason = 'no_handler' then 'failed' else 'expired' end, due = null,
       reason = case when reason = 'no_handler' then reason else 'deadline' end,
       epoch = epoch + 1, dedupe_held = null, finished_at = :now
 where id = any(array(select id from holdfast_live
                       where deadline <= :now and state <> 'running'
                       order by deadline limit :n for update skip locked))
returning id, linked;
