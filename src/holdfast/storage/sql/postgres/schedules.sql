-- These differ in how a list is passed.

-- name: runs_of_schedules
-- The newest ticks of each schedule that made a job, and that job's state. Index: the primary key.
select t.tenant, t.schedule, t.tick, t.job_id, coalesce(live.state, ended.state), coalesce(live.started_at, ended.started_at),
       ended.finished_at
  from (select key.value ->> 0 as tenant, key.value ->> 1 as name
          from json_array_elements(:keys::json) as key(value)) as wanted
  join holdfast_cron_tick as t
    on t.tenant = wanted.tenant and t.schedule = wanted.name
   and t.tick >= coalesce((select tick from holdfast_cron_tick as newest
                            where newest.tenant = wanted.tenant and newest.schedule = wanted.name
                            order by tick desc limit 1 offset :last), 0)
  left join holdfast_live as live on live.id = t.job_id
  left join holdfast_ended as ended on ended.id = t.job_id
 order by t.tenant, t.schedule, t.tick desc;
