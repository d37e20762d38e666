-- name: read_events
select seq, at, body, kind, tenant, job, task, queue, previous, state, reason, attempt, epoch,
       worker, tags, flow, name, source, target
  from holdfast_event where seq > :after order by seq limit :n;

-- name: events_pruned
select seq from holdfast_event_mark where name = 'pruned';

-- name: old_events
-- From the oldest on: those that are old enough come first. The newest stays: the next number follows from it.
-- Rows that webhooks have not processed stay while there is an endpoint.
select seq from (select seq, at from holdfast_event order by seq limit :n) as oldest
 where at <= :now - :keep and seq < (select max(seq) from holdfast_event)
   and (seq <= (select seq from holdfast_event_mark where name = 'webhooks')
        or not exists (select 1 from holdfast_webhook where state = 'active'));

-- name: prune_events
delete from holdfast_event where seq <= :upto;

-- name: mark_pruned
insert into holdfast_event_mark (name, seq) values ('pruned', :upto)
    on conflict (name) do update set seq = excluded.seq where holdfast_event_mark.seq < excluded.seq;

-- name: queues_that_tell_otherwise
select name, events from holdfast_queue where events is not null;

-- name: any_loud_queue
select 1 from holdfast_queue where events = 'all' limit 1;
