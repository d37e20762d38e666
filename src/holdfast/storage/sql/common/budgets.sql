-- name: budget_chain
-- A tenant's own budget of that name, or else the one of no tenant, and those that contain it. The depth is bounded:
-- two concurrent changes could close a circle.
with recursive chain(key, parent, depth) as (
    select key, parent, 0 from holdfast_budget
     where key = (select b.key from holdfast_budget as b where b.key in (:own, :shared)
                   order by case b.key when :own then 0 else 1 end limit 1)
    union all
    select b.key, b.parent, chain.depth + 1 from chain join holdfast_budget as b on b.key = chain.parent
     where chain.depth < 16
)
select key from chain order by depth;

-- name: insert_budget
insert into holdfast_budget (key, tenant, name, anchor, origin, created_at)
values (:key, :tenant, :name, :now, :origin, :now)
    on conflict (key) do nothing
returning key;

-- name: write_budget
update holdfast_budget
   set parent = :parent, every = :every, expression = :expression, zone = :zone, anchor = :anchor,
       next_reset = :next_reset, reset_at = :reset_at, resets = :resets, breached_at = :breached_at, origin = :origin
 where key = :key;

-- name: list_budgets
-- A page, in the order of keys.
select key from holdfast_budget
 where key > :after and (cast(:tenant as text) is null or tenant = :tenant)
 order by key limit :n;

-- name: budget_children
select name from holdfast_budget where parent = :key order by key limit 1;

-- name: delete_budget
delete from holdfast_budget where key = :key returning key;

-- name: delete_budget_lines
delete from holdfast_budget_line where budget = :key;

-- name: delete_budget_spends
delete from holdfast_spend where budget = :key;

-- name: due_resets
-- Index: holdfast_budget_reset.
select key from holdfast_budget where next_reset <= :now order by next_reset limit :n;

-- name: holds_of_run
select hold, budget, dimension, amount from holdfast_reservation where job_id = :job_id and epoch = :epoch;

-- name: drop_reservation
delete from holdfast_reservation where job_id = :job_id and epoch = :epoch and hold = :hold
returning budget, dimension, amount;

-- name: sweep_reservations
-- Of runs that are over. Without `exists`: Postgres may answer it by reading the whole table of jobs.
delete from holdfast_reservation
 where budget = :budget
   and coalesce((select job.epoch from holdfast_live as job
                  where job.id = holdfast_reservation.job_id and job.state = 'running'), -1) <> epoch;

-- name: mark_run
-- Any end of the run releases its reservations.
update holdfast_live
   set holds = case when holds is null or holds = '[]' then '["run:' || id || '"]'
                    else substr(holds, 1, length(holds) - 1) || ',"run:' || id || '"]' end
 where id = :id and state = 'running' and epoch = :epoch
   and (holds is null or replace(holds, '"run:' || id || '"', '') = holds);

-- name: find_spend
select amounts, answer from holdfast_spend where budget = :budget and idem_key = :idem_key and expires_at > :now;

-- name: put_spend
insert into holdfast_spend (budget, idem_key, amounts, answer, expires_at)
values (:budget, :idem_key, :amounts, :answer, :now + :kept)
    on conflict (budget, idem_key) do update
   set amounts = excluded.amounts, answer = excluded.answer, expires_at = excluded.expires_at;

-- name: expired_spends
-- Index: holdfast_spend_expiry.
delete from holdfast_spend
 where (budget, idem_key) in (select budget, idem_key from holdfast_spend where expires_at <= :now
                               order by expires_at limit :n)
returning budget;

-- name: short_of
-- Blocked jobs that wait for a budget or a quota, longest first. Index: holdfast_shortage_key.
select s.job_id, s.asked
  from holdfast_shortage as s join holdfast_live as job on job.id = s.job_id
 where s.key = :key and job.state = 'blocked' and job.reason in ('budget_exhausted', 'quota')
 order by s.since, s.job_id
 limit :n;

-- name: count_short_of
select count(*) from holdfast_shortage where key = :key;

-- name: shortage_of
select kind, key, asked, since from holdfast_shortage where job_id = :job_id;

-- name: what_is_short
-- Index: holdfast_shortage_key.
select distinct kind, key from holdfast_shortage order by key limit :n;

-- name: drop_over_shortages
-- Of jobs that no longer wait for it, such as cancelled ones. A refused run is about to wait.
delete from holdfast_shortage
 where job_id in (select s.job_id from holdfast_shortage as s
                   where coalesce((select case when job.state = 'running' then 1
                                               when job.state = 'blocked'
                                                    and job.reason in ('budget_exhausted', 'quota') then 1 end
                                     from holdfast_live as job where job.id = s.job_id), 0) = 0
                   limit :n)
returning job_id;

-- name: over_shortages
select s.job_id from holdfast_shortage as s
 where coalesce((select case when job.state = 'running' then 1
                             when job.state = 'blocked' and job.reason in ('budget_exhausted', 'quota') then 1 end
                   from holdfast_live as job where job.id = s.job_id), 0) = 0
 limit 1;

-- name: what_is_spent
-- Whether records of spends and of admissions have expired; takes no lock. Indexes: holdfast_spend_expiry,
-- holdfast_admission_until.
select case when exists (select 1 from holdfast_spend where expires_at <= :now) then 1 else 0 end,
       case when exists (select 1 from holdfast_admission where until_at <= :now and active = 0) then 1 else 0 end;

-- name: orphaned_reservations
select r.job_id from holdfast_reservation as r
 where not exists (select 1 from holdfast_job as job where job.id = r.job_id)
 limit :n;

-- name: orphaned_lines
select line.budget from holdfast_budget_line as line
 where not exists (select 1 from holdfast_budget as b where b.key = line.budget)
 limit :n;
