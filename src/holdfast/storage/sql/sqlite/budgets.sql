-- These differ in how a list is passed, and the write lock is held where Postgres locks rows.

-- name: lock_budgets
select key, tenant, name, parent, every, expression, zone, anchor, next_reset, reset_at, resets, breached_at, origin, :now
  from holdfast_budget
 where key in (select value from json_each(:keys))
 order by key;

-- name: read_budgets
select key, tenant, name, parent, every, expression, zone, anchor, next_reset, reset_at, resets, breached_at, origin, :now
  from holdfast_budget
 where key in (select value from json_each(:keys))
 order by key;

-- name: lines_of
-- A reservation counts while its job runs under its epoch; each is looked up by the job's id.
select line.budget, line.dimension, line.hard, line.soft, line.spent, line.lifetime, line.soft_breaches,
       line.hard_breaches, line.warned,
       (select coalesce(sum(r.amount), 0) from holdfast_reservation as r
         where r.budget = line.budget and r.dimension = line.dimension
           and r.epoch = (select job.epoch from holdfast_live as job where job.id = r.job_id and job.state = 'running')),
       (select count(*) from holdfast_reservation as r
         where r.budget = line.budget and r.dimension = line.dimension
           and r.epoch is not (select job.epoch from holdfast_live as job
                                where job.id = r.job_id and job.state = 'running'))
  from holdfast_budget_line as line
 where line.budget in (select value from json_each(:keys))
 order by line.budget, line.dimension;

-- name: write_line
insert into holdfast_budget_line (
    budget, dimension, hard, soft, spent, lifetime, soft_breaches, hard_breaches, warned)
values (:budget, :dimension, :hard, :soft, :spent, :lifetime, :soft_breaches, :hard_breaches, :warned)
    on conflict (budget, dimension) do update
   set hard = excluded.hard, soft = excluded.soft, spent = excluded.spent, lifetime = excluded.lifetime,
       soft_breaches = excluded.soft_breaches, hard_breaches = excluded.hard_breaches, warned = excluded.warned;

-- name: insert_reservation
insert into holdfast_reservation (job_id, epoch, hold, budget, dimension, amount)
values (:job_id, :epoch, :hold, :budget, :dimension, :amount);

-- name: release_runs
delete from holdfast_reservation where job_id in (select value from json_each(:ids)) returning budget;

-- name: keys_with_shortage
select distinct key from holdfast_shortage where key in (select value from json_each(:keys));

-- name: unblock_short
-- The longest-waiting job goes first: it keeps its place. A replaced one may have a due time that is still ahead.
update holdfast_live
   set state = 'ready', due = case when not_before > :now then 0 when suspect = 1 then 3 else 1 end, reason = 'unblocked'
 where id in (select value from json_each(:ids)) and state = 'blocked' and reason in ('budget_exhausted', 'quota')
returning id, queue;

-- name: drop_shortages
delete from holdfast_shortage where job_id in (select value from json_each(:ids));

-- name: admitted_before
-- Those of these holders whose admission already counts in the window.
select holder from holdfast_admission
 where quota = :quota and at > :now - :span and holder in (select value from json_each(:holders));

-- name: put_shortages
insert into holdfast_shortage (job_id, kind, key, asked, since)
select job.id, 'budget', :key, :asked, :now from holdfast_job as job
 where job.id in (select value from json_each(:ids))
    on conflict (job_id) do update set kind = excluded.kind, key = excluded.key, asked = excluded.asked;
