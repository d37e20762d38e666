-- name: store_id
select value from holdfast_meta where key = 'store_id';

-- name: insert_store_id
-- The first call decides, once and for all.
insert into holdfast_meta (key, value) values ('store_id', :value) on conflict (key) do nothing;

-- name: store_secret
select value from holdfast_meta where key = 'secret';

-- name: insert_store_secret
-- The first call decides, once and for all.
insert into holdfast_meta (key, value) values ('secret', :value) on conflict (key) do nothing;

-- name: database_clock
select :now;

-- Rules that must hold in every store at every moment. Each statement returns a few of the jobs or rows that break one.

-- name: unowned_running
-- A worker's row lives until it owns nothing, so a running job always names one.
select job.id from holdfast_live as job
 where job.owner is not null and not exists (select 1 from holdfast_worker as worker where worker.id = job.owner)
 limit :n;

-- name: due_mismatch
-- A ready row without a due mark would never be claimed; a mark on any other could be claimed twice.
select id from holdfast_live where (state = 'ready') <> (due is not null) limit :n;

-- name: owner_mismatch
select id from holdfast_live where (state = 'running') <> (owner is not null) limit :n;

-- name: misplaced_jobs
-- A job is live or has ended, and never both or neither.
select job.id from holdfast_job as job
 where (select count(*) from holdfast_live as live where live.id = job.id)
       + (select count(*) from holdfast_ended as ended where ended.id = job.id) <> 1
 limit :n;

-- name: orphaned_places
-- A row of a place whose job is gone would be claimed or listed for ever.
select id from holdfast_live as live where not exists (select 1 from holdfast_job as job where job.id = live.id)
union all
select id from holdfast_ended as ended where not exists (select 1 from holdfast_job as job where job.id = ended.id)
 limit :n;

-- name: claimable_too_early
-- Marked as claimable though its time has not come. Clocks may differ by a little.
select id from holdfast_live where due in (1, 3) and not_before > :now + 60000000 limit :n;

-- name: suspect_mismatch
select id from holdfast_live where due = 3 and suspect = 0 limit :n;

-- name: orphaned_attempts
select attempt.job_id from holdfast_attempt as attempt
 where not exists (select 1 from holdfast_job as job where job.id = attempt.job_id)
 limit :n;

-- name: miscounted_flows
-- Members that have not ended, and those whose end the flow has not processed yet.
select f.id from holdfast_flow as f
 where f.live <> (select count(*) from holdfast_job as job join holdfast_live as live on live.id = job.id where job.flow = f.id)
                 + (select count(*) from holdfast_hop as hop where hop.flow = f.id and hop.state <> 'replayed')
                 - (select count(*) from holdfast_hop as hop where hop.flow = f.id and hop.state = 'replayed')
 limit :n;

-- name: miscounted_joins
-- Of members that wait, and whose upstreams' ends are all known.
select j.job_id
  from holdfast_join as j
  join holdfast_live as job on job.id = j.job_id and job.state = 'blocked' and job.reason = 'dependencies'
  join holdfast_flow as f on f.id = job.flow and f.cancel_at is null
 where j.kind = 'flow' and j.applied = 1
   and j.awaits + j.spare <> (select count(*) from holdfast_edge as e
                               where e.downstream = j.job_id and e.kind = 'flow' and e.applied = 1 and e.met is null)
 limit :n;

-- name: forgotten_members
-- A member that waits although nothing it waits for is left, or although it can never start.
select j.job_id
  from holdfast_join as j
  join holdfast_live as job on job.id = j.job_id and job.state = 'blocked' and job.reason = 'dependencies'
  join holdfast_flow as f on f.id = job.flow and f.cancel_at is null
 where j.kind = 'flow' and j.applied = 1 and (j.awaits <= 0 or j.spare < 0)
 limit :n;

-- name: endless_flows
select id from holdfast_flow where live = 0 and members > 0 and finished_at is null limit :n;

-- name: missing_routes
-- No worker finds a special route without its row.
select job.id from holdfast_live as job
 where job.reason = 'no_handler' and job.state = 'ready'
   and not exists (select 1 from holdfast_route as route where route.id = job.route)
 limit :n;

-- name: applied_migrations
select version, name, applied_at from holdfast_migration order by version;

-- name: write_probe
-- A write that nothing reads: it only tests whether writing works.
insert into holdfast_meta (key, value) values ('doctor', cast(:now as text))
    on conflict (key) do update set value = excluded.value
returning key;

-- name: orphaned_streams
select s.job_id from holdfast_stream as s
 where not exists (select 1 from holdfast_job as job where job.id = s.job_id)
 limit :n;

-- name: stray_reservations
-- A reservation counts only for the run that made it, and is released when that ends.
select r.job_id from holdfast_reservation as r
 where not exists (select 1 from holdfast_live as job
                    where job.id = r.job_id and job.state = 'running' and job.epoch = r.epoch)
 limit :n;

-- name: stray_admissions
select a.job_id from holdfast_admission as a
 where a.active = 1 and a.job_id is not null
   and not exists (select 1 from holdfast_live as job
                    where job.id = a.job_id and job.state = 'running' and job.epoch = a.epoch)
 limit :n;

-- name: gapped_streams
-- Frames that count are never trimmed and have consecutive numbers; of the others the oldest may be gone.
select s.job_id from holdfast_stream as s
 where s.head <> (select count(*) from holdfast_frame as f where f.job_id = s.job_id and f.best_effort = 0)
    or s.head <> (select coalesce(max(f.seq), 0) from holdfast_frame as f
                   where f.job_id = s.job_id and f.best_effort = 0)
    or s.live - s.trimmed <> (select count(*) from holdfast_frame as f where f.job_id = s.job_id and f.best_effort = 1)
 limit :n;

-- name: endless_suspensions
-- A suspended job without a wait is never woken.
select job.id from holdfast_live as job
 where job.state = 'suspended' and not exists (select 1 from holdfast_wait as w where w.job_id = job.id)
 limit :n;

-- name: endless_shortages
select job.id from holdfast_live as job
 where job.state = 'blocked' and job.reason in ('budget_exhausted', 'quota')
   and not exists (select 1 from holdfast_shortage as s where s.job_id = job.id)
 limit :n;

-- name: endless_dependencies
select job.id from holdfast_live as job
 where job.state = 'blocked' and job.reason = 'dependencies'
   and not exists (select 1 from holdfast_join as j where j.job_id = job.id)
 limit :n;

-- name: parked_nowhere
select id from holdfast_live where due = 2 and lane is null limit :n;

-- name: waiting_though_cancelled
-- Only a running job may have a cancel requested: any other ends at once, and nothing brings it back but a retry.
select id from holdfast_live where cancel_at is not null and state <> 'running' limit :n;

-- name: incomplete_ends
-- A success belongs to a run; any other end took the job from its owner.
select id from holdfast_ended
 where state = 'succeeded' and finished_epoch is null or finished_epoch >= epoch
 limit :n;

-- name: attempts_beyond
select id from holdfast_any_job where (max_attempts > 0 and attempts > max_attempts) or attempts < 0 limit :n;

-- name: attempts_ahead
-- A run that has ended is of an earlier epoch than the job's, and of no later generation.
select job.id from holdfast_attempt as a join holdfast_any_job as job on job.id = a.job_id
 where a.epoch >= job.epoch or a.generation > job.generation
 limit :n;

-- name: unheld_keys
-- A live job that holds its key until it ends.
select live.id from holdfast_live as live join holdfast_job as job on job.id = live.id
 where job.dedupe_key is not null and job.dedupe_until = 'finish' and live.dedupe_held is null
 limit :n;

-- name: repeated_ticks
-- Each tick makes a job of its own.
select job_id from holdfast_cron_tick group by job_id having count(*) > 1 limit :n;

-- name: orphaned_steps
select s.job_id from holdfast_step as s
 where not exists (select 1 from holdfast_job as job where job.id = s.job_id)
 limit :n;

-- name: orphaned_signals
select s.job_id from holdfast_signal as s
 where not exists (select 1 from holdfast_job as job where job.id = s.job_id)
 limit :n;

-- name: orphaned_waits
select w.job_id from holdfast_wait as w
 where not exists (select 1 from holdfast_job as job where job.id = w.job_id)
 limit :n;

-- name: orphaned_frames
select f.job_id from holdfast_frame as f
 where not exists (select 1 from holdfast_stream as s where s.job_id = f.job_id)
 limit :n;

-- name: reopened_flows
select id from holdfast_flow where finished_at is not null and live <> 0 limit :n;
