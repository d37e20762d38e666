-- name: hold_webhook_mark
-- A process that finds it locked leaves the work to the other.
select seq from holdfast_event_mark where name = 'webhooks' for update skip locked;

-- name: hearing_webhooks
-- Endpoints of these tenants that subscribe to one of these words. Index: holdfast_webhook_tenant.
select id, tenant, url, events, tags, called, state, reason, concurrency, after_seq, succeeded_at, created_at, updated_at
  from holdfast_webhook
 where tenant = any(array(select json_array_elements_text(:tenants::json))) and state = 'active' and called = 0
   and exists (select 1 from json_array_elements_text(coalesce(events, '["job"]')::json) as word
                where word = any(array(select json_array_elements_text(:words::json))));

-- name: called_webhooks
select id, tenant, url, events, tags, called, state, reason, concurrency, after_seq, succeeded_at, created_at, updated_at
  from holdfast_webhook
 where id = any(array(select json_array_elements_text(:ids::json))) and state = 'active' and called = 1;

-- name: signing_webhooks
select id, url, state, reason, secret, old_secret, old_until, succeeded_at, :now
  from holdfast_webhook where id = any(array(select json_array_elements_text(:ids::json)));

-- name: note_deliveries
insert into holdfast_delivery (job_id, endpoint, message, kind, job, at)
select job_id, endpoint, message, kind, job, :now
  from json_to_recordset(:rows::json) as r(job_id text, endpoint text, message text, kind text, job text)
    on conflict do nothing;

-- name: told_jobs
-- The data of these jobs for messages. Large results are not read.
select id, state, reason, error, case when octet_length(result) <= :most then result end, octet_length(result), trace
  from holdfast_any_job where id = any(array(select json_array_elements_text(:ids::json)));

-- name: told_errors
-- Of these runs, each a job and its epoch.
select a.job_id, a.epoch, a.error
  from json_array_elements(:runs::json) as r(value)
  join holdfast_attempt as a on a.job_id = r.value ->> 0 and a.epoch = (r.value ->> 1)::bigint;

-- name: told_artifacts
select job_id, name, content_type, size from holdfast_artifact
 where job_id = any(array(select json_array_elements_text(:ids::json)))
 order by job_id, name;

-- name: forget_deliveries
delete from holdfast_delivery where job_id = any(array(select json_array_elements_text(:ids::json)));

-- name: note_callbacks
insert into holdfast_callback (job_id, url)
select job_id, url from json_to_recordset(:rows::json) as r(job_id text, url text) on conflict do nothing;

-- name: callbacks_of
select job_id, url from holdfast_callback where job_id = any(array(select json_array_elements_text(:ids::json)));

-- name: leave_callbacks
-- Their jobs are deleted; logged events of them may still have to be delivered.
update holdfast_callback set gone_at = :now where job_id = any(array(select json_array_elements_text(:ids::json)));

-- name: newest_deliveries
-- Of each endpoint. Index: holdfast_delivery_endpoint.
select w.id, d.at, job.state
  from json_array_elements_text(:ids::json) as one(value)
  join holdfast_webhook as w on w.id = one.value and (cast(:tenant as text) is null or w.tenant = :tenant)
  join holdfast_delivery as d
    on d.endpoint = w.id
   and d.job_id >= coalesce((select job_id from holdfast_delivery where endpoint = w.id
                              order by job_id desc limit 1 offset :last), '')
  join holdfast_any_job as job on job.id = d.job_id
 order by w.id, d.job_id desc;

-- name: breakers_of_webhooks
select w.id, b.threshold, b.open_for, b.failures, b.opened_at, b.open_until, :now
  from json_array_elements_text(:ids::json) as one(value)
  join holdfast_webhook as w on w.id = one.value and (cast(:tenant as text) is null or w.tenant = :tenant)
  join holdfast_breaker as b on b.scope = 'webhook:' || w.id;
