-- These differ because only Postgres locks rows, and in how a list is passed.

-- name: hold_tenant_of_job
select tenant from holdfast_job where id = :id;

-- name: hold_tenant_of_flow
select tenant from holdfast_flow where id = :id;

-- name: tenants_of_jobs
select id, tenant from holdfast_job where id in (select value from json_each(:ids)) order by id;

-- name: tenants_of_flows
select id, tenant from holdfast_flow where id in (select value from json_each(:ids)) order by id;
