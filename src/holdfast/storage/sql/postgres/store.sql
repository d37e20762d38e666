-- These differ in how a list is passed. Rows that another transaction has locked wait for the next round.

-- name: free_pages
-- Left to the server's autovacuum.
select 0, 0, false;

-- name: give_back_page
select 0;

-- The catalogues differ, and the reading of lists; Postgres has no check of its pages without an extension.

-- name: schema_objects
select case relkind when 'r' then 'table' when 'i' then 'index' when 'v' then 'view' end, relname::text
  from pg_class
 where relnamespace = current_schema()::regnamespace and relname like 'holdfast\_%' and relkind in ('r', 'i', 'v')
 order by 1, 2;

-- name: check_pages
select 'ok' where cast(:n as bigint) > 0;

-- name: miscounted_lanes
select lane.key from holdfast_lane as lane
 where lane.running <> (select count(*) from holdfast_live as job, jsonb_array_elements_text(job.holds::jsonb) as held
                         where job.state = 'running' and held = lane.key)
 limit :n;
