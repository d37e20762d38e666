-- Percentiles differ because only Postgres has them; the store's health because each database has its own.

-- name: roll_latencies
-- By the nearest rank. `strides` are the queues of this minute, with 1 where every run is read and n for every n-th; a
-- row that is skipped costs no more than its place in the index.
with strides(queue, stride) as materialized (
    select key, value from json_each(:strides)
), ended as materialized (
    select job.queue, max(0, job.claimed_at - job.not_before) as wait, job.finished_at - job.claimed_at as run,
           job.finished_at - given.created_at as total
      from holdfast_ended as job join holdfast_job as given on given.id = job.id
     where job.finished_at >= :since and job.finished_at < :until and job.state in ('succeeded', 'failed')
       and job.rowid % (select stride from strides where strides.queue = job.queue) = 0 and job.claimed_at is not null
), whole as materialized (
    select queue, count(*) as n, sum(wait) as wait, sum(run) as run, sum(total) as total from ended group by queue
), placed as (
    select queue, wait, row_number() over (partition by queue order by wait) as wait_place,
           run, row_number() over (partition by queue order by run) as run_place,
           total, row_number() over (partition by queue order by total) as total_place
      from ended
), ranks(rank) as (values (50), (95), (99), (100)), points as materialized (
    select whole.queue, ranks.rank,
           max(case when placed.wait_place = (whole.n * ranks.rank + 99) / 100 then placed.wait end) as wait,
           max(case when placed.run_place = (whole.n * ranks.rank + 99) / 100 then placed.run end) as run,
           max(case when placed.total_place = (whole.n * ranks.rank + 99) / 100 then placed.total end) as total
      from placed join whole on whole.queue = placed.queue cross join ranks
     where (whole.n * ranks.rank + 99) / 100 in (placed.wait_place, placed.run_place, placed.total_place)
     group by 1, 2
)
select whole.queue, 'wait', whole.n, whole.wait,
       max(case rank when 50 then points.wait end), max(case rank when 95 then points.wait end),
       max(case rank when 99 then points.wait end), max(case rank when 100 then points.wait end)
  from whole join points on points.queue = whole.queue group by 1
union all
select whole.queue, 'run', whole.n, whole.run,
       max(case rank when 50 then points.run end), max(case rank when 95 then points.run end),
       max(case rank when 99 then points.run end), max(case rank when 100 then points.run end)
  from whole join points on points.queue = whole.queue group by 1
union all
select whole.queue, 'total', whole.n, whole.total,
       max(case rank when 50 then points.total end), max(case rank when 95 then points.total end),
       max(case rank when 99 then points.total end), max(case rank when 100 then points.total end)
  from whole join points on points.queue = whole.queue group by 1;

-- name: put_metric
insert into holdfast_metric (queue, metric, minute, count, sum, p50, p95, p99, max)
values (:queue, :metric, :minute, :count, :sum, :p50, :p95, :p99, :max)
    on conflict (queue, metric, minute) do update
   set count = excluded.count, sum = excluded.sum, p50 = excluded.p50, p95 = excluded.p95, p99 = excluded.p99,
       max = excluded.max
 where excluded.count > holdfast_metric.count;

-- name: put_task_minute
insert into holdfast_task_minute (minute, task, count, figures)
values (:minute, :task, :count, :figures)
    on conflict (minute, task) do update set count = excluded.count, figures = excluded.figures
 where excluded.count > holdfast_task_minute.count;

-- name: store_health
select (select page_count from pragma_page_count) * (select page_size from pragma_page_size),
       (select freelist_count from pragma_freelist_count) * (select page_size from pragma_page_size),
       null, null, null, (select file from pragma_database_list where name = 'main');
