-- The catalogues differ, and Postgres has no check of its pages without an extension.

-- name: schema_objects
select case relkind when 'r' then 'table' when 'i' then 'index' when 'v' then 'view' end, relname::text
  from pg_class
 where relnamespace = current_schema()::regnamespace and relname like 'holdfast\_%' and relkind in ('r', 'i', 'v')
 order by 1, 2;

-- name: check_pages
select 'ok' where cast(:n as bigint) > 0;
