-- These differ in how a list is passed. Only here are rows locked: budgets by key, always in one order, and
-- after the job whose run reserves; a waiting job that another transaction has locked is skipped.

-- name: lock_budgets
select key, tenant, name, parent, every, expression, zone, anchor, next_reset, reset_at, resets, breached_at, origin, :now
  from holdfast_budget
 where key = any(array(select json_array_elements_text(:keys::json)))
 order by key
   for update;

-- name: read_budgets
select key, tenant, name, parent, every, expression, zone, anchor, next_reset, reset_at, resets, breached_at, origin, :now
  from holdfast_budget
 where key = any(array(select json_array_elements_text(:keys::json)))
 order by key;

-- name: lines_of
-- Read after the lock. A reservation counts while its job runs under its epoch; each is looked up by the job's id.
select line.budget, line.dimension, line.hard, line.soft, line.spent, line.lifetime, line.soft_breaches,
       line.hard_breaches, line.warned, coalesce(held.amount, 0)::bigint, coalesce(held.stale, 0)
  from holdfast_budget_line as line
  left join lateral (
       select sum(r.amount) filter (where r.epoch = r.running) as amount,
              count(*) filter (where r.epoch is distinct from r.running) as stale
         from (select r.amount, r.epoch,
                      (select job.epoch from holdfast_live as job where job.id = r.job_id and job.state = 'running')
                      as running
                 from holdfast_reservation as r
                where r.budget = line.budget and r.dimension = line.dimension) as r) as held on true
 where line.budget = any(array(select json_array_elements_text(:keys::json)))
 order by line.budget, line.dimension;

-- name: write_line
insert into holdfast_budget_line (
    budget, dimension, hard, soft, spent, lifetime, soft_breaches, hard_breaches, warned)
select * from unnest(:budget::text[], :dimension::text[], :hard::bigint[], :soft::bigint[], :spent::bigint[],
                     :lifetime::bigint[], :soft_breaches::bigint[], :hard_breaches::bigint[], :warned::smallint[])
    on conflict (budget, dimension) do update
   set hard = excluded.hard, soft = excluded.soft, spent = excluded.spent, lifetime = excluded.lifetime,
       soft_breaches = excluded.soft_breaches, hard_breaches = excluded.hard_breaches, warned = excluded.warned;

-- name: insert_reservation
insert into holdfast_reservation (job_id, epoch, hold, budget, dimension, amount)
select :job_id, :epoch, item.* from unnest(:hold::text[], :budget::text[], :dimension::text[], :amount::bigint[]) as item;

-- name: release_runs
delete from holdfast_reservation where job_id = any(array(select json_array_elements_text(:ids::json)))
returning budget;

-- name: keys_with_shortage
select distinct key from holdfast_shortage where key = any(array(select json_array_elements_text(:keys::json)));

-- name: unblock_short
-- The longest-waiting job goes first: it keeps its place. A replaced one may have a due time that is still ahead.
update holdfast_live
   set state = 'ready', due = case when not_before > :now then 0 when suspect = 1 then 3 else 1 end, reason = 'unblocked'
 where id = any(array(select id from holdfast_live
                       where id = any(array(select json_array_elements_text(:ids::json)))
                         and state = 'blocked' and reason in ('budget_exhausted', 'quota')
                       order by id
                         for update skip locked))
returning id, queue;

-- name: drop_shortages
delete from holdfast_shortage where job_id = any(array(select json_array_elements_text(:ids::json)));

-- name: admitted_before
-- Those of these holders whose admission already counts in the window.
select holder from holdfast_admission
 where quota = :quota and at > :now - :span and holder = any(array(select json_array_elements_text(:holders::json)));

-- name: put_shortages
insert into holdfast_shortage (job_id, kind, key, asked, since)
select job.id, 'budget', :key, :asked, :now from holdfast_job as job
 where job.id = any(array(select json_array_elements_text(:ids::json)))
    on conflict (job_id) do update set kind = excluded.kind, key = excluded.key, asked = excluded.asked;
