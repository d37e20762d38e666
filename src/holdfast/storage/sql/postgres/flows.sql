-- These differ in how a list is passed, and only here are rows locked: by id, in one order in every transaction.

-- name: look_at_members
select id, flow, member, tenant, state from holdfast_any_job
 where id in (select json_array_elements_text(:ids::json)) order by id;

-- name: count_members_of
-- Index: holdfast_job_member.
select flow, state, count(*) from holdfast_any_job
 where flow in (select json_array_elements_text(:flows::json)) and (cast(:tenant as text) is null or tenant = :tenant)
 group by flow, state;

-- name: names_taken
select member from holdfast_job
 where flow = :flow and member in (select json_array_elements_text(:names::json))
 order by member;

-- name: lock_members
select holdfast_lock_jobs(array(select json_array_elements_text(:ids::json)));

-- name: link_member
with item as materialized (
    select * from unnest(:id::text[], :member::text[], :inputs::text[], :waits::int[]) with ordinality
                    as item(id, member, inputs, waits, n)
), given as (
    update holdfast_job as job set flow = :flow, member = item.member, inputs = item.inputs
      from item
     where job.id = item.id and job.flow is null
)
update holdfast_live as job
   set flow = :flow, linked = 1,
       state = case when item.waits = 1 then 'blocked' else job.state end,
       due = case when item.waits = 1 then null else job.due end,
       reason = case when item.waits = 1 then 'dependencies' else job.reason end
  from item
 where job.id = item.id and job.flow is null
returning item.n, job.id;

-- name: insert_edge
with item as materialized (
    select * from unnest(:upstream::text[], :downstream::text[], :policy::text[]) with ordinality
        as i(upstream, downstream, policy, n)
), fresh as (
    insert into holdfast_edge (upstream, downstream, kind, policy, applied)
    select upstream, downstream, :kind::text, policy, :applied::int from item order by n
        on conflict do nothing
    returning upstream, downstream
)
select item.n, item.upstream from fresh join item using (upstream, downstream);

-- name: insert_join
with item as materialized (
    select * from unnest(:job_id::text[], :mode::text[], :rest::text[], :needed::int[], :depth::int[], :awaits::int[],
                         :spare::int[]) with ordinality
        as i(job_id, mode, rest, needed, depth, awaits, spare, n)
), fresh as (
    insert into holdfast_join (job_id, kind, mode, rest, needed, applied, depth, awaits, spare)
    select job_id, :kind::text, mode, rest, needed, :applied::int, depth, awaits, spare from item order by n
        on conflict do nothing
    returning job_id
)
select item.n, item.job_id from fresh join item using (job_id);

-- name: depths_of
select job_id, depth from holdfast_join where kind = 'flow' and job_id in (select json_array_elements_text(:ids::json));

-- name: set_depth
update holdfast_join as j set depth = item.depth
  from unnest(:job_id::text[], :depth::int[]) with ordinality as item(job_id, depth, n)
 where j.job_id = item.job_id and j.kind = 'flow' and j.depth <> item.depth
returning item.n, j.job_id;

-- name: apply_planned
update holdfast_edge set applied = 1
 where downstream in (select json_array_elements_text(:ids::json)) and kind = 'flow' and applied = 0
returning upstream;

-- name: meet_ended
-- Upstreams that had ended before a job waited for them.
update holdfast_edge as e
   set met = case when e.policy = 'any' or e.policy = 'success' and job.state = 'succeeded'
                       or e.policy = 'failure' and job.state in ('failed', 'expired') then 1 else 0 end
  from holdfast_ended as job
 where e.downstream in (select json_array_elements_text(:ids::json)) and e.kind = 'flow'
   and e.applied = 1 and e.met is null and job.id = e.upstream and job.finished_at is not null;

-- name: lock_joins
select count(*)
  from (select 1 from holdfast_join as j where job_id = any(array(select json_array_elements_text(:ids::json)))
         order by job_id, kind for update of j) as locked;

-- name: recount_joins
-- The rows are locked before, so that edges which are marked meanwhile are subtracted afterwards.
update holdfast_join as j
   set awaits = case c.n when 0 then 0
                     else case j.mode when 'all' then c.n when 'any' then 1 else j.needed end - c.good end,
       spare = case c.n when 0 then 0
                    else c.n - case j.mode when 'all' then c.n when 'any' then 1 else j.needed end - c.bad end,
       applied = 1, sweep = 0
  from (select i.id, count(e.upstream)::int as n, count(case when e.met = 1 then 1 end)::int as good,
               count(case when e.met = 0 then 1 end)::int as bad
          from json_array_elements_text(:ids::json) as i(id)
          left join holdfast_edge as e on e.downstream = i.id and e.kind = 'flow' and e.applied = 1
         group by i.id) as c
 where j.job_id = c.id and j.kind = 'flow'
returning job_id, awaits, spare, rest;

-- name: block_members
-- Members that have not started in this generation.
with locked as materialized (
    select job.id from json_array_elements_text(:ids::json) as i(id)
      join holdfast_live as job on job.id = i.id
     order by job.id
       for update of job
)
update holdfast_live as job
   set state = 'blocked', due = null, reason = 'dependencies'
  from locked
 where job.id = locked.id
   and (state = 'ready' and (started_at is null or reason = 'replay')
        or state = 'blocked' and (reason = 'dependencies' or reason = 'operator' and started_at is null))
returning job.id;

-- name: release_members
-- No member of a cancelled flow is released, whichever comes first.
with locked as materialized (
    select job.id from json_array_elements_text(:ids::json) as i(id)
      join holdfast_live as job on job.id = i.id
     order by job.id
       for update of job
)
update holdfast_live as job
   set state = 'ready', rank = greatest(not_before, :now),
       reason = case when not_before > :now then 'delay' else 'new' end,
       due = case when not_before > :now then 0 when suspect = 1 then 3 else 1 end
  from locked
 where job.id = locked.id and state = 'blocked' and reason = 'dependencies'
   and not exists (select 1 from holdfast_flow as f where f.id = job.flow and f.cancel_at is not null)
returning job.queue;

-- name: skip_members
with locked as materialized (
    select job.id from json_array_elements_text(:ids::json) as i(id)
      join holdfast_live as job on job.id = i.id
     order by job.id
       for update of job
)
update holdfast_live as job
   set state = 'skipped', due = null, reason = 'impossible', epoch = epoch + 1, dedupe_held = null, finished_at = :now
  from locked
 where job.id = locked.id and state = 'blocked' and reason = 'dependencies'
   and not exists (select 1 from holdfast_flow as f where f.id = job.flow and f.cancel_at is not null)
returning job.id;

-- name: begin_sweep
update holdfast_join set sweep = 1 where job_id in (select json_array_elements_text(:ids::json)) and kind = 'flow';

-- name: take_hops
-- The transaction that holds one resolves it.
delete from holdfast_hop
 where job_id in (select hop.job_id from json_array_elements_text(:ids::json) as i(id)
                    join holdfast_hop as hop on hop.job_id = i.id
                     for update of hop skip locked)
returning job_id, state, flow,
          exists (select 1 from holdfast_hook as h where h.job_id = holdfast_hop.job_id);

-- name: page_of_hops
delete from holdfast_hop
 where job_id = any(array(select job_id from holdfast_hop order by job_id limit :n for update skip locked))
returning job_id, state, flow,
          exists (select 1 from holdfast_hook as h where h.job_id = holdfast_hop.job_id);

-- name: put_hop
insert into holdfast_hop (job_id, at, state, flow)
select job_id, :now, state, flow
  from unnest(:job_id::text[], :state::text[], :flow::text[]) as item(job_id, state, flow)
    on conflict do nothing
returning 0;

-- name: mark_edges
-- Each once, a page at a time: 10,000 jobs may wait for one. Found by the primary key and then by their
-- row locations, whatever the statistics say: a join read the whole table, 70 ms a call at 10,000 edges.
with ended as materialized (
    select * from json_to_recordset(:ended::json) as i(id text, state text)
), page as materialized (
    select edge.place
      from ended
     cross join lateral (select ctid as place from holdfast_edge
                          where upstream = ended.id and applied = 1 and met is null
                          order by downstream, kind limit :n) as edge
     limit :n
)
update holdfast_edge as e
   set met = case
           when e.policy = 'any' then 1
           when e.policy = 'success' and e.upstream in (select id from ended where state = 'succeeded') then 1
           when e.policy = 'failure'
                and e.upstream in (select id from ended where state in ('failed', 'expired')) then 1
           else 0 end
 where e.ctid = any(array(select place from page)) and e.met is null
returning e.downstream, e.kind, e.met;

-- name: count_join
with item as materialized (
    select * from unnest(:job_id::text[], :kind::text[], :met::int[], :unmet::int[]) with ordinality
        as i(job_id, kind, met, unmet, n)
), locked as materialized (
    select j.job_id from item join holdfast_join as j on j.job_id = item.job_id and j.kind = item.kind
     order by j.job_id, j.kind
       for update of j
)
update holdfast_join as j set awaits = awaits - item.met, spare = spare - item.unmet
  from item
 where j.job_id = item.job_id and j.kind = item.kind and (select count(*) from locked) > 0
returning item.n, j.awaits, j.spare, j.rest;

-- name: lower_live
with locked as materialized (
    select id from holdfast_flow where id = any(:id::text[]) order by id for update
)
update holdfast_flow as f set live = f.live - item.n
  from unnest(:id::text[], :n::int[]) with ordinality as item(id, n, place)
 where f.id = any(array(select id from locked)) and f.id = item.id
returning item.place, f.live;

-- name: raise_live
-- The flow is reopened: its old cancel no longer applies, and the callback of its old end is not due any more.
with locked as materialized (
    select id from holdfast_flow where id = any(:id::text[]) order by id for update
)
update holdfast_flow as f set live = f.live + item.n,
       cancel_policy = case when finished_at is null then cancel_policy end,
       cancel_reason = case when finished_at is null then cancel_reason end,
       cancel_at = case when finished_at is null then cancel_at end,
       cancel_upto = case when finished_at is null then cancel_upto end,
       finished_at = null, outcome = null, callback = null
  from unnest(:id::text[], :n::int[]) with ordinality as item(id, n, place)
 where f.id = any(array(select id from locked)) and f.id = item.id
returning item.place, f.live;

-- name: forget_ends
-- Of jobs that run again: the jobs that wait for them will be notified again.
update holdfast_edge set met = null
 where upstream = any(array(select json_array_elements_text(:ids::json))) and kind = 'flow' and met is not null
returning downstream;

-- name: cancel_members
-- Scope: 0 members that wait for others, 1 those not started in this generation, 2 all that are not running. A run
-- that was taken from its owner left nothing but its history.
with locked as materialized (
    select job.id from json_array_elements_text(:ids::json) as i(id)
      join holdfast_live as job on job.id = i.id
     order by job.id
       for update of job
)
update holdfast_live as job
   set state = 'cancelled', due = null, reason = :reason, cancel_at = :now, cancel_reason = :reason, epoch = epoch + 1,
       dedupe_held = null, finished_at = :now
  from locked
 where job.id = locked.id and state in ('ready', 'blocked', 'suspended')
   and (state = 'blocked' and reason = 'dependencies'
        or :scope >= 1 and attempts = 0 and finished_epoch is null
           and not exists (select 1 from holdfast_attempt as run
                            where run.job_id = job.id and run.generation = job.generation)
        or :scope >= 2)
returning job.id;

-- name: ask_members
with locked as materialized (
    select job.id from json_array_elements_text(:ids::json) as i(id)
      join holdfast_live as job on job.id = i.id
     order by job.id
       for update of job
)
update holdfast_live as job
   set cancel_at = coalesce(cancel_at, :now), cancel_reason = coalesce(cancel_reason, :reason)
  from locked
 where job.id = locked.id and state = 'running'
returning job.id;

-- name: link_upstreams
with locked as materialized (
    select job.id from json_array_elements_text(:ids::json) as i(id)
      join holdfast_live as job on job.id = i.id
     order by job.id
       for update of job
)
update holdfast_live as job set linked = 1
  from locked
 where job.id = locked.id
returning job.id;

-- name: needed_jobs
-- Finished jobs that something unfinished still refers to: their flow, or a job that waits for them.
select id from holdfast_any_job as job
 where id in (select json_array_elements_text(:ids::json)) and linked = 1
   and (exists (select 1 from holdfast_flow as f where f.id = job.flow and f.finished_at is null)
        or exists (select 1 from holdfast_edge as e join holdfast_live as waiter on waiter.id = e.downstream
                    where e.upstream = job.id and e.kind = 'wait'));

-- name: forget_edges
-- An edge lives as long as the waiting job: its upstream's outcome counts when that job runs again.
delete from holdfast_edge where downstream = any(array(select json_array_elements_text(:ids::json)));

-- name: forget_joins
delete from holdfast_join where job_id = any(array(select json_array_elements_text(:ids::json)));
