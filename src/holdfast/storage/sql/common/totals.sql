-- name: set_total
insert into holdfast_queue (name, max_workers) values (:name, cast(:total as bigint))
    on conflict (name) do update set max_workers = excluded.max_workers;

-- name: list_totals
select name, max_workers from holdfast_queue where max_workers is not null order by name;

-- name: list_shares
select queue, worker, slots from holdfast_share order by queue, worker;

-- name: write_share
insert into holdfast_share (queue, worker, slots) values (:queue, :worker, :slots)
    on conflict (queue, worker) do update set slots = excluded.slots;

-- name: delete_share
delete from holdfast_share where queue = :queue and worker = :worker;

-- name: queues_with_work
-- Each queue that has something to claim, found by one step of holdfast_job_ready per route.
with recursive routes(route) as (
    select min(route) from holdfast_job where due = 1
    union all
    select (select min(j.route) from holdfast_job j where j.due = 1 and j.route > routes.route) from routes
     where routes.route is not null
)
select distinct (select queue from holdfast_job j where j.due = 1 and j.route = routes.route limit 1)
  from routes where routes.route is not null;
