-- name: roll_latencies
select queue, metric, count(*), sum(value)::bigint,
       percentile_disc(0.5) within group (order by value), percentile_disc(0.95) within group (order by value),
       percentile_disc(0.99) within group (order by value), max(value)
  from (select job.queue, sample.metric, sample.value
          from holdfast_ended as job
          join holdfast_job as given on given.id = job.id
          join json_each_text(:strides::json) as stride on stride.key = job.queue
         cross join lateral (values ('wait', greatest(0, job.claimed_at - job.not_before)),
                                    ('run', job.finished_at - job.claimed_at),
                                    ('total', job.finished_at - given.created_at)) as sample(metric, value)
         where job.finished_at >= :since and job.finished_at < :until and job.state in ('succeeded', 'failed')
           and job.claimed_at is not null and abs(hashtext(job.id)::bigint) % stride.value::bigint = 0) as samples
 group by queue, metric;

-- name: put_metric
insert into holdfast_metric (queue, metric, minute, count, sum, p50, p95, p99, max)
select * from unnest(:queue::text[], :metric::text[], :minute::bigint[], :count::bigint[], :sum::bigint[],
                     :p50::bigint[], :p95::bigint[], :p99::bigint[], :max::bigint[])
    on conflict (queue, metric, minute) do update
   set count = excluded.count, sum = excluded.sum, p50 = excluded.p50, p95 = excluded.p95, p99 = excluded.p99,
       max = excluded.max
 where excluded.count > holdfast_metric.count
returning 0;

-- name: put_task_minute
insert into holdfast_task_minute (minute, task, count, figures)
select * from unnest(:minute::bigint[], :task::text[], :count::bigint[], :figures::text[])
    on conflict (minute, task) do update set count = excluded.count, figures = excluded.figures
 where excluded.count > holdfast_task_minute.count
returning 0;

-- name: store_health
select (select sum(pg_total_relation_size(c.oid))::bigint from pg_class as c
          join pg_namespace as n on n.oid = c.relnamespace
         where n.nspname = current_schema() and c.relname like 'holdfast%' and c.relkind = 'r'),
       null::bigint,
       (select sum(n_dead_tup)::bigint from pg_stat_user_tables
         where schemaname = current_schema() and relname like 'holdfast%'),
       (select sum(n_live_tup)::bigint from pg_stat_user_tables
         where schemaname = current_schema() and relname like 'holdfast%'),
       (select coalesce(max(extract(epoch from clock_timestamp() - xact_start)), 0)::float8 from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid()),
       null::text;
