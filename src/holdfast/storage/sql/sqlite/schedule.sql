-- These differ in how a list is passed.

-- name: runs_of_schedules
-- The newest ticks of each schedule that made a job, and that job's state. Index: the primary key.
select t.schedule, t.tick, t.job_id, job.state, job.started_at, job.finished_at
  from json_each(:names) as name
  join holdfast_cron_tick as t
    on t.schedule = name.value
   and t.tick >= coalesce((select tick from holdfast_cron_tick where schedule = name.value
                            order by tick desc limit 1 offset :last), 0)
  left join holdfast_job as job on job.id = t.job_id
 order by t.schedule, t.tick desc;
