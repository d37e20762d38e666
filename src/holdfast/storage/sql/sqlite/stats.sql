-- Percentiles differ because only Postgres has them; the store's health because each database has its own.

-- name: roll_latencies
-- By the nearest rank. `strides` are the queues of this minute, with 1 where every run is taken and n for every n-th.
with strides(queue, stride) as materialized (
    select key, value from json_each(:strides)
), ended as materialized (
    select job.queue, max(0, job.claimed_at - job.not_before) as wait, job.finished_at - job.claimed_at as run,
           job.finished_at - job.created_at as total
      from holdfast_job as job cross join strides
     where job.finished_at >= :since and job.finished_at < :until and job.state in ('succeeded', 'failed')
       and strides.queue = job.queue and job.rowid % strides.stride = 0 and job.claimed_at is not null
), samples(queue, metric, value) as (
    select queue, 'wait', wait from ended
    union all select queue, 'run', run from ended
    union all select queue, 'total', total from ended
), ranked as (
    select queue, metric, value, row_number() over (partition by queue, metric order by value) as place,
           count(*) over (partition by queue, metric) as n
      from samples
)
select queue, metric, n, sum(value),
       max(case when place = (n * 50 + 99) / 100 then value end),
       max(case when place = (n * 95 + 99) / 100 then value end),
       max(case when place = (n * 99 + 99) / 100 then value end),
       max(value)
  from ranked group by queue, metric, n;

-- name: put_metric
insert into holdfast_metric (queue, metric, minute, count, sum, p50, p95, p99, max)
values (:queue, :metric, :minute, :count, :sum, :p50, :p95, :p99, :max)
    on conflict (queue, metric, minute) do update
   set count = excluded.count, sum = excluded.sum, p50 = excluded.p50, p95 = excluded.p95, p99 = excluded.p99,
       max = excluded.max
 where excluded.count > holdfast_metric.count;

-- name: store_health
select (select page_count from pragma_page_count) * (select page_size from pragma_page_size),
       (select freelist_count from pragma_freelist_count) * (select page_size from pragma_page_size),
       null, null, null, (select file from pragma_database_list where name = 'main');
