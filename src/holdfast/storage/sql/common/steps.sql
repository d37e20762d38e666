-- name: journal_of
-- A job's journal, in the order of its calls. `stale` is a failure with which a run has failed since: that run
-- was to be retried, and its failed step with it.
select key, kind, name, called, value, attempts, started_at, ended_at, epoch, position, error, attributes,
       case when error is not null
                 and exists (select 1 from holdfast_attempt as a
                              where a.job_id = holdfast_step.job_id and a.epoch >= holdfast_step.epoch
                                and a.outcome not in ('lost', 'crashed', 'released', 'throttled', 'parked', 'snoozed'))
            then 1 else 0 end as stale,
       :now
  from holdfast_step
 where job_id = :job_id
 order by position, started_at, key;

-- name: step_of
select key, kind, name, called, value, attempts, started_at, ended_at, epoch, position, error, attributes
  from holdfast_step
 where job_id = :job_id and key = :key;

-- name: drop_failed_step
-- Not what this run itself has written, and writes again.
delete from holdfast_step where job_id = :job_id and key = :key and error is not null and epoch < :epoch;

-- name: fork_job
-- The same call as a new job.
insert into holdfast_job (id, @given(kept), inputs, created_at, created_by)
select :fork, @given(kept), inputs, :now, :created_by
  from holdfast_job
 where id = :id;

-- name: place_fork
-- On the route of the job that it is a fork of, apart from a grant. It begins with epoch 1: a job whose first run has
-- epoch 1 has no journal to read.
insert into holdfast_live (id, @copied(kept), queue, route, state, due, rank, not_before, reason, epoch)
select :fork, @copied(kept), queue, coalesce(cast(:route as bigint), route), 'ready', 1, :now, :now, 'new', 1
  from holdfast_any_job
 where id = :id;

-- name: fork_steps
insert into holdfast_step (
    job_id, key, position, kind, name, called, value, error, attempts, attributes, epoch, started_at, ended_at)
select :fork, key, position, kind, name, called, value, error, attempts, attributes, 0, started_at, ended_at
  from holdfast_step
 where job_id = :id and position < :position;
