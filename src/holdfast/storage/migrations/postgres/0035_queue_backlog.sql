-- For autoscalers: the queues that have live jobs. Its columns stay as they are; others may be added behind them.
-- oldest writer: 0034

-- ready: jobs that one more worker could start now. Those behind a limit are not counted, nor those of a paused queue.
create view holdfast_queue_backlog as
select backlog.queue,
       sum(backlog.ready)::bigint as ready,
       sum(backlog.running)::bigint as running,
       coalesce(max(backlog.wait) filter (where backlog.ready = 1), 0)::double precision as oldest_wait
  from (select live.queue,
               case when live.owner is null and live.not_before <= clock.now
                         and coalesce(queue.state, 'active') not in ('paused', 'disabled') then 1 else 0 end as ready,
               case when live.owner is not null then 1 else 0 end as running,
               (clock.now - live.not_before) / 1e6 as wait
          from (select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now) as clock
          cross join holdfast_live as live
          left join holdfast_queue as queue on queue.name = live.queue
         where live.due in (0, 1, 3) or live.owner is not null) as backlog
 group by backlog.queue;
