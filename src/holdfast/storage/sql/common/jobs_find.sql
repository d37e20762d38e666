-- name: get_job
select @job from holdfast_any_job where id = :id;

-- name: job_attempts
select epoch, generation, attempt, outcome, worker, started_at, ended_at, error
  from holdfast_attempt where job_id = :job_id order by epoch;

-- Ids of jobs, newest first. Each statement reads one pool through its own index, so that a query of one
-- pool does not depend on the size of the others. `before` is a text above every id where there is none.

-- name: find_any
-- Where neither state, queue nor task narrows it, by the primary keys.
select id from (select live.id from holdfast_live as live
                 where live.id < :before and @wanted(live)
                 order by live.id desc limit :n) as page
union all
select id from (select ended.id from holdfast_ended as ended
                 where ended.id < :before and @wanted(ended)
                 order by ended.id desc limit :n) as page
 order by id desc limit :n;

-- name: find_by_id
-- Where an id begins so. By the primary keys.
select id from (select live.id from holdfast_live as live
                 where live.id >= :prefix and live.id < :before and @wanted(live)
                 order by live.id desc limit :n) as page
union all
select id from (select ended.id from holdfast_ended as ended
                 where ended.id >= :prefix and ended.id < :before and @wanted(ended)
                 order by ended.id desc limit :n) as page
 order by id desc limit :n;

-- name: find_waiting
-- Index: holdfast_live_waiting.
select live.id from holdfast_live as live
 where live.state in ('blocked', 'suspended') and live.id < :before and @wanted(live)
 order by live.id desc limit :n;

-- name: find_by_end
-- Ended jobs, those that ended last first. Index: holdfast_ended_time, which has all that is asked of a row but its id.
select job.finished_at, job.id from holdfast_ended as job
 where job.finished_at >= :since and job.finished_at <= :upto and (job.finished_at < :upto or job.id < :before)
   and (cast(:state as text) is null or job.state = :state)
   and (cast(:queue as text) is null or job.queue = :queue)
   and (cast(:older_than as bigint) is null or job.finished_at <= :now - :older_than)
 order by job.finished_at desc, job.id desc limit :n;

-- name: ready_queues
-- The queues of ready jobs, each found by one step on holdfast_live_queued.
with recursive q(queue) as (
    select (select min(queue) from holdfast_live where due is not null)
    union all
    select (select min(job.queue) from holdfast_live as job where job.due is not null and job.queue > q.queue)
      from q where q.queue is not null
)
select queue from q where queue is not null;

-- name: queued_by_queue
-- Future-dated rows are counted separately from those that could start now. Index: holdfast_live_queued, alone.
select queue, count(*), sum(case when not_before > :now then 1 else 0 end),
       :now - min(case when not_before <= :now then not_before end)
  from holdfast_live where due is not null
 group by queue;

-- name: running_by_queue
-- Index: holdfast_live_owned, asked for in its order.
select queue, count(*)
  from (select queue from holdfast_live where owner is not null order by owner limit 1000000) as running
 group by queue;

-- name: waiting_by_queue
-- Index: holdfast_live_waiting.
select queue, state, count(*) from holdfast_live where state in ('blocked', 'suspended') group by queue, state;

-- name: ended_beyond
-- Whether more than n jobs have ended. Index: holdfast_ended_time.
select finished_at from holdfast_ended where finished_at is not null order by finished_at desc limit 1 offset :n;

-- name: ended_since
-- Ended after an instant. Index: holdfast_ended_time, alone.
select queue, state, count(*), max(finished_at) from holdfast_ended where finished_at > :after group by queue, state;

-- name: list_tallies
select queue, state, jobs, counted_at from holdfast_tally;

-- name: write_tally
insert into holdfast_tally (queue, state, jobs, counted_at) values (:queue, :state, :jobs, :upto)
    on conflict (queue, state) do update set jobs = excluded.jobs, counted_at = excluded.counted_at;

-- name: lower_tally
update holdfast_tally set jobs = case when jobs > :n then jobs - :n else 0 end where queue = :queue and state = :state;

-- name: clear_tallies
delete from holdfast_tally;
