-- name: add_webhook
-- An endpoint that jobs name may exist already.
insert into holdfast_webhook (id, tenant, url, events, tags, called, state, secret, concurrency, after_seq, created_at,
                              updated_at)
values (:id, :tenant, :url, :events, :tags, :called, 'active', :secret, :concurrency, :after_seq, :now, :now)
    on conflict (id) do nothing
returning id;

-- name: begin_webhook_mark
insert into holdfast_event_mark (name, seq) values ('webhooks', :seq) on conflict (name) do nothing;

-- name: get_webhook
select id, tenant, url, events, tags, called, state, reason, concurrency, after_seq, succeeded_at, created_at, updated_at,
       secret
  from holdfast_webhook where id = :id;

-- name: list_webhooks
select id, tenant, url, events, tags, called, state, reason, concurrency, after_seq, succeeded_at, created_at, updated_at
  from holdfast_webhook
 where id > :after and (cast(:tenant as text) is null or tenant = :tenant)
 order by id
 limit :n;

-- name: any_webhook
select id from holdfast_webhook where state = 'active' limit 1;

-- name: rotate_webhook
update holdfast_webhook
   set old_secret = secret, old_until = :now + :overlap, secret = :secret, updated_at = :now
 where id = :id
returning id;

-- name: disable_webhook
update holdfast_webhook set state = 'disabled', reason = :reason, updated_at = :now
 where id = :id and state = 'active'
returning id;

-- name: disable_failing_webhook
-- No delivery has succeeded since the one given up now began.
update holdfast_webhook set state = 'disabled', reason = 'failing', updated_at = :now
 where id = :id and state = 'active' and coalesce(succeeded_at, created_at) < :since
returning id;

-- name: enable_webhook
update holdfast_webhook set state = 'active', reason = null, after_seq = :after_seq, updated_at = :now
 where id = :id and state = 'disabled'
returning id;

-- name: note_webhook_success
-- Not for each success: a busy endpoint would be written constantly.
update holdfast_webhook set succeeded_at = :now where id = :id and coalesce(succeeded_at, 0) < :now - :rest;

-- name: delete_webhook
delete from holdfast_webhook where id = :id returning id;

-- name: forget_deliveries_to
delete from holdfast_delivery where endpoint = :endpoint;

-- name: webhook_mark
select seq from holdfast_event_mark where name = 'webhooks';

-- name: move_webhook_mark
update holdfast_event_mark set seq = :seq where name = 'webhooks' and seq < :seq;

-- name: deliveries_to
-- The newest first. Index: holdfast_delivery_endpoint.
select d.job_id, d.endpoint, d.message, d.kind, d.job, d.at, job.state, job.attempts, job.not_before, job.finished_at,
       job.result, job.error, job.generation
  from holdfast_delivery as d join holdfast_any_job as job on job.id = d.job_id
 where d.endpoint = :endpoint and (cast(:before as text) is null or d.job_id < :before)
 order by d.job_id desc
 limit :n;

-- name: delivery_of
select d.job_id, d.endpoint, d.message, d.kind, d.job, d.at, job.state, job.attempts, job.not_before, job.finished_at,
       job.result, job.error, job.generation
  from holdfast_delivery as d join holdfast_any_job as job on job.id = d.job_id
 where d.job_id = :job_id;

-- name: waiting_deliveries
-- Those that have not ended. Index: holdfast_delivery_endpoint.
select d.job_id from holdfast_delivery as d join holdfast_live as job on job.id = d.job_id
 where d.endpoint = :endpoint
   and (job.state <> 'running' or job.cancel_at is null)
 order by d.job_id
 limit :n;

-- name: failed_deliveries
-- Deliveries given up since then. Index: holdfast_delivery_endpoint.
select d.job_id from holdfast_delivery as d join holdfast_ended as job on job.id = d.job_id
 where d.endpoint = :endpoint and job.state = 'failed' and d.at >= :since and job.generation < :most
 order by d.job_id
 limit :n;

-- name: orphaned_deliveries
select d.job_id from holdfast_delivery as d
 where not exists (select 1 from holdfast_job as job where job.id = d.job_id)
 limit :n;

-- name: last_webhook
select max(succeeded_at) from holdfast_webhook;

-- name: orphaned_callbacks
select c.job_id from holdfast_callback as c
 where c.gone_at is null and not exists (select 1 from holdfast_job as job where job.id = c.job_id)
 limit :n;

-- name: forget_callbacks
-- Those of jobs that were deleted by then. Index: holdfast_callback_gone.
delete from holdfast_callback where gone_at <= :upto;

-- name: unguarded_webhooks
-- Their deliveries would wait for ever.
select w.id from holdfast_webhook as w
 where not exists (select 1 from holdfast_breaker as b where b.scope = 'webhook:' || w.id)
 limit :n;
