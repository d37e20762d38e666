-- These differ because only Postgres locks rows, and in how a list is passed.

-- name: hold_tenant_of_job
-- Until the commit the job cannot be deleted and its id taken by another tenant; mere changes are not blocked.
select tenant from holdfast_job where id = :id for key share;

-- name: hold_tenant_of_flow
select tenant from holdfast_flow where id = :id for key share;

-- name: tenants_of_jobs
select id, tenant from holdfast_job where id = any(array(select json_array_elements_text(:ids::json))) order by id;

-- name: tenants_of_flows
select id, tenant from holdfast_flow where id = any(array(select json_array_elements_text(:ids::json))) order by id;
