-- For autoscalers: the queues that have live jobs. Its columns stay as they are; others may be added behind them.
-- oldest writer: 0034

-- ready: jobs that one more worker could start now. Those behind a limit are not counted, nor those of a paused queue.
create view holdfast_queue_backlog as
select live.queue,
       case when coalesce(queue.state, 'active') in ('paused', 'disabled') then 0 else live.ready end as ready,
       live.running,
       case when live.ready = 0 or coalesce(queue.state, 'active') in ('paused', 'disabled') then 0
            else (live.now - live.oldest) / 1e6 end as oldest_wait
  from (select job.queue, max(clock.now) as now,
               count(*) filter (where job.owner is null and job.not_before <= clock.now) as ready,
               count(job.owner) as running,
               min(job.not_before) filter (where job.owner is null and job.not_before <= clock.now) as oldest
          from holdfast_live as job
          cross join (select cast((julianday('now') - 2440587.5) * 86400000000 as integer) as now) as clock
         where job.due in (0, 1, 3) or job.owner is not null
         group by job.queue) as live
  left join holdfast_queue as queue on queue.name = live.queue;
