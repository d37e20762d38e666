-- These differ in how a list is passed, and only Postgres locks rows.

-- name: look_at_members
select id, flow, member, tenant, state from holdfast_any_job where id in (select value from json_each(:ids)) order by id;

-- name: count_members_of
-- Index: holdfast_job_member.
select flow, state, count(*) from holdfast_any_job
 where flow in (select value from json_each(:flows)) and (cast(:tenant as text) is null or tenant = :tenant)
 group by flow, state;

-- name: names_taken
select member from holdfast_job where flow = :flow and member in (select value from json_each(:names)) order by member;

-- name: lock_members
-- The write lock is held.
select count(:ids);

-- name: link_member
update holdfast_live
   set flow = :flow, linked = 1,
       state = case when :waits = 1 then 'blocked' else state end,
       due = case when :waits = 1 then null else due end,
       reason = case when :waits = 1 then 'dependencies' else reason end
 where id = :id and flow is null
returning id;
-- then:
update holdfast_job set flow = :flow, member = :member, inputs = :inputs where id = :id;

-- name: insert_edge
insert into holdfast_edge (upstream, downstream, kind, policy, applied)
values (:upstream, :downstream, :kind, :policy, :applied)
    on conflict do nothing
returning upstream;

-- name: insert_join
insert into holdfast_join (job_id, kind, mode, rest, needed, applied, depth, awaits, spare)
values (:job_id, :kind, :mode, :rest, :needed, :applied, :depth, :awaits, :spare)
    on conflict do nothing
returning job_id;

-- name: depths_of
select job_id, depth from holdfast_join where kind = 'flow' and job_id in (select value from json_each(:ids));

-- name: set_depth
update holdfast_join set depth = :depth where job_id = :job_id and kind = 'flow' and depth <> :depth returning job_id;

-- name: apply_planned
update holdfast_edge set applied = 1
 where downstream in (select value from json_each(:ids)) and kind = 'flow' and applied = 0
returning upstream;

-- name: meet_ended
-- Upstreams that had ended before a job waited for them.
update holdfast_edge as e
   set met = case e.policy when 'any' then 1 when 'success' then job.state = 'succeeded'
                  else job.state in ('failed', 'expired') end
  from holdfast_ended as job
 where e.downstream in (select value from json_each(:ids)) and e.kind = 'flow' and e.applied = 1 and e.met is null
   and job.id = e.upstream and job.finished_at is not null;

-- name: lock_joins
-- The write lock is held.
select count(:ids);

-- name: recount_joins
update holdfast_join as j
   set awaits = case c.n when 0 then 0
                     else case j.mode when 'all' then c.n when 'any' then 1 else j.needed end - c.good end,
       spare = case c.n when 0 then 0
                    else c.n - case j.mode when 'all' then c.n when 'any' then 1 else j.needed end - c.bad end,
       applied = 1, sweep = 0
  from (select i.value as id, count(e.upstream) as n, count(case when e.met = 1 then 1 end) as good,
               count(case when e.met = 0 then 1 end) as bad
          from json_each(:ids) as i
          left join holdfast_edge as e on e.downstream = i.value and e.kind = 'flow' and e.applied = 1
         group by i.value) as c
 where j.job_id = c.id and j.kind = 'flow'
returning job_id, awaits, spare, rest;

-- name: block_members
-- Members that have not started in this generation.
update holdfast_live
   set state = 'blocked', due = null, reason = 'dependencies'
 where id in (select value from json_each(:ids))
   and (state = 'ready' and (started_at is null or reason = 'replay')
        or state = 'blocked' and (reason = 'dependencies' or reason = 'operator' and started_at is null))
returning id;

-- name: release_members
-- No member of a cancelled flow is released, whichever comes first.
update holdfast_live as job
   set state = 'ready', rank = max(not_before, :now),
       reason = case when not_before > :now then 'delay' else 'new' end,
       due = case when not_before > :now then 0 when suspect = 1 then 3 else 1 end
 where id in (select value from json_each(:ids)) and state = 'blocked' and reason = 'dependencies'
   and not exists (select 1 from holdfast_flow as f where f.id = job.flow and f.cancel_at is not null)
returning queue;

-- name: skip_members
update holdfast_live as job
   set state = 'skipped', due = null, reason = 'impossible', epoch = epoch + 1, dedupe_held = null, finished_at = :now
 where id in (select value from json_each(:ids)) and state = 'blocked' and reason = 'dependencies'
   and not exists (select 1 from holdfast_flow as f where f.id = job.flow and f.cancel_at is not null)
returning id;

-- name: begin_sweep
update holdfast_join set sweep = 1 where job_id in (select value from json_each(:ids)) and kind = 'flow';

-- name: take_hops
delete from holdfast_hop where job_id in (select value from json_each(:ids)) returning job_id, state, flow,
          exists (select 1 from holdfast_hook as h where h.job_id = holdfast_hop.job_id);

-- name: page_of_hops
delete from holdfast_hop
 where job_id in (select job_id from holdfast_hop order by job_id limit :n)
returning job_id, state, flow,
          exists (select 1 from holdfast_hook as h where h.job_id = holdfast_hop.job_id);

-- name: put_hop
insert into holdfast_hop (job_id, at, state, flow) values (:job_id, :now, :state, :flow)
    on conflict do nothing
returning job_id;

-- name: mark_edges
-- Each once, a page at a time: 10,000 jobs may wait for one.
update holdfast_edge as e
   set met = case e.policy when 'any' then 1 when 'success' then page.state = 'succeeded'
                  else page.state in ('failed', 'expired') end
  from (select out.upstream, out.downstream, out.kind, h.value ->> '$.state' as state
          from json_each(:ended) as h
         cross join holdfast_edge as out on out.upstream = h.value ->> '$.id'
         where out.applied = 1 and out.met is null
         limit :n) as page
 where e.upstream = page.upstream and e.downstream = page.downstream and e.kind = page.kind
returning downstream, kind, met;

-- name: count_join
update holdfast_join set awaits = awaits - :met, spare = spare - :unmet
 where job_id = :job_id and kind = :kind
returning awaits, spare, rest;

-- name: lower_live
update holdfast_flow set live = live - :n where id = :id returning live;

-- name: raise_live
-- The flow is reopened: its old cancel no longer applies, and the callback of its old end is not due any more.
update holdfast_flow set live = live + :n,
       cancel_policy = case when finished_at is null then cancel_policy end,
       cancel_reason = case when finished_at is null then cancel_reason end,
       cancel_at = case when finished_at is null then cancel_at end,
       cancel_upto = case when finished_at is null then cancel_upto end,
       finished_at = null, outcome = null, callback = null
 where id = :id returning live;

-- name: forget_ends
-- Of jobs that run again: the jobs that wait for them will be notified again.
update holdfast_edge set met = null
 where upstream in (select value from json_each(:ids)) and kind = 'flow' and met is not null
returning downstream;

-- name: cancel_members
-- Scope: 0 members that wait for others, 1 those not started in this generation, 2 all that are not running. A run
-- that was taken from its owner left nothing but its history.
update holdfast_live
   set state = 'cancelled', due = null, reason = :reason, cancel_at = :now, cancel_reason = :reason, epoch = epoch + 1,
       dedupe_held = null, finished_at = :now
 where id in (select value from json_each(:ids)) and state in ('ready', 'blocked', 'suspended')
   and (state = 'blocked' and reason = 'dependencies'
        or :scope >= 1 and attempts = 0 and finished_epoch is null
           and not exists (select 1 from holdfast_attempt as run
                            where run.job_id = holdfast_live.id and run.generation = holdfast_live.generation)
        or :scope >= 2)
returning id;

-- name: ask_members
update holdfast_live
   set cancel_at = coalesce(cancel_at, :now), cancel_reason = coalesce(cancel_reason, :reason)
 where id in (select value from json_each(:ids)) and state = 'running'
returning id;

-- name: link_upstreams
update holdfast_live set linked = 1
 where id in (select value from json_each(:ids))
returning id;

-- name: needed_jobs
-- Finished jobs that something unfinished still refers to: their flow, or a job that waits for them.
select id from holdfast_any_job as job
 where id in (select value from json_each(:ids)) and linked = 1
   and (exists (select 1 from holdfast_flow as f where f.id = job.flow and f.finished_at is null)
        or exists (select 1 from holdfast_edge as e join holdfast_live as waiter on waiter.id = e.downstream
                    where e.upstream = job.id and e.kind = 'wait'));

-- name: forget_edges
-- An edge lives as long as the waiting job: its upstream's outcome counts when that job runs again.
delete from holdfast_edge where downstream in (select value from json_each(:ids));

-- name: forget_joins
delete from holdfast_join where job_id in (select value from json_each(:ids));
