-- name: cancelled_members
-- Index: holdfast_job_member.
select id from holdfast_any_job where flow = :flow and cancel_at >= :at order by id;

-- name: get_flow
select id, name, tenant, revision, members, live, on_success, on_failure, cancel_policy, cancel_reason, cancel_at,
       created_at, finished_at, outcome
  from holdfast_flow where id = :id;

-- name: list_flows
-- Newest first, by the primary key. A missing filter is null; the cast gives Postgres its type.
select id, name, tenant, revision, members, live, on_success, on_failure, cancel_policy, cancel_reason, cancel_at,
       created_at, finished_at, outcome
  from holdfast_flow
 where (cast(:before as text) is null or id < :before)
   and (cast(:state as text) is null or coalesce(outcome, 'running') = :state)
   and (cast(:name as text) is null or name = :name)
   and (cast(:tenant as text) is null or tenant = :tenant)
   and (cast(:since as bigint) is null or created_at >= :since)
   and (cast(:until as bigint) is null or created_at < :until)
 order by id desc
 limit :n;

-- name: insert_flow
insert into holdfast_flow (id, name, tenant, on_success, on_failure, created_at)
values (:id, :name, :tenant, :on_success, :on_failure, :now)
    on conflict do nothing
returning id;

-- name: extend_flow
-- Every transaction locks jobs before their flow: this comes last, and what it refuses is rolled back.
update holdfast_flow set members = members + :n, live = live + :n, revision = revision + 1
 where id = :id and finished_at is null and cancel_at is null
returning revision, members;

-- name: advance_revision
update holdfast_flow set revision = revision + 1
 where id = :id and revision = :revision and finished_at is null and cancel_at is null
returning revision;

-- name: end_flow
-- Cancelled members count against it, except those no longer needed. No member is left for a cancel to reach.
update holdfast_flow
   set finished_at = :now, cancel_upto = null,
       outcome = case
           when cancel_at is not null then 'cancelled'
           when exists (select 1 from holdfast_any_job as job
                         where job.flow = holdfast_flow.id
                           and (job.state in ('failed', 'expired')
                                or job.state = 'cancelled' and job.reason is distinct from 'not_needed')) then 'failed'
           else 'succeeded' end
 where id = :id and live = 0 and (members > 0 or cancel_at is not null) and finished_at is null
returning outcome, on_success, on_failure;

-- name: owe_callback
update holdfast_flow set callback = :callback where id = :id;

-- name: owed_callbacks
-- Index: holdfast_flow_callback.
select id, callback, on_success, on_failure from holdfast_flow where callback is not null order by id limit :n;

-- name: settle_callback
update holdfast_flow set callback = null where id = :id and callback is not null returning id;

-- name: count_members
select state, count(*) from holdfast_any_job where flow = :flow group by state;

-- name: flow_members
select job.id, job.member, job.task, job.queue, job.state, job.reason, job.attempts, job.generation, job.created_at,
       job.started_at, job.finished_at, j.mode, j.needed, j.rest, job.inputs
  from holdfast_any_job as job
  left join holdfast_join as j on j.job_id = job.id and j.kind = 'flow'
 where job.flow = :flow
 order by job.member;

-- name: flow_edges
select e.upstream, e.downstream, e.policy, e.applied, e.met
  from holdfast_job as job
  join holdfast_edge as e on e.downstream = job.id and e.kind = 'flow'
 where job.flow = :flow
 order by e.upstream, e.downstream;

-- name: flow_sinks
select job.id, job.member, job.task, job.state, job.result, job.error, job.reason
  from holdfast_any_job as job
 where job.flow = :flow
   and not exists (select 1 from holdfast_edge as e where e.upstream = job.id and e.kind = 'flow')
 order by job.member;

-- name: member_join
-- A member, its join, and how many upstreams count.
select job.flow, job.state, job.reason, job.inputs, j.applied, j.mode, j.needed, j.rest,
       (select count(*) from holdfast_edge as e where e.downstream = job.id and e.kind = 'flow' and e.applied = 1)
  from holdfast_any_job as job
  left join holdfast_join as j on j.job_id = job.id and j.kind = 'flow'
 where job.id = :id;

-- name: set_join
update holdfast_join set mode = :mode, needed = :needed, rest = :rest
 where job_id = :id and kind = 'flow' and applied = 1
returning job_id;

-- name: staged_members
select job.id
  from holdfast_job as job
  join holdfast_join as j on j.job_id = job.id and j.kind = 'flow' and j.applied = 0
 where job.flow = :flow
 order by job.id;

-- name: upstreams_of
-- The upstreams that a job still waits for, or whose outcome it was not given.
select e.upstream, job.member, coalesce(live.state, ended.state), e.policy
  from holdfast_edge as e
  left join holdfast_job as job on job.id = e.upstream
  left join holdfast_live as live on live.id = e.upstream
  left join holdfast_ended as ended on ended.id = e.upstream
 where e.downstream = :id and e.applied = 1 and coalesce(e.met, 0) = 0
 order by e.upstream
 limit :n;

-- name: hold_member
-- The run that extends its own flow.
select flow from holdfast_live where id = :id and state = 'running' and owner = :owner and epoch = :epoch;

-- name: cancel_flow
update holdfast_flow
   set cancel_policy = :policy, cancel_reason = :reason, cancel_at = :at, cancel_upto = :upto
 where id = :id and cancel_at is null and finished_at is null
returning cancel_at;

-- name: carry_cancel
update holdfast_flow set cancel_upto = :upto where id = :id and cancel_upto is not null returning id;

-- name: cancel_place
select cancel_policy, cancel_reason, cancel_upto from holdfast_flow where id = :id;

-- name: cancelling_flows
-- Index: holdfast_flow_cancelling.
select id from holdfast_flow where cancel_upto is not null order by id limit :n;

-- name: page_of_members
-- Index: holdfast_job_member.
select id, member from holdfast_job where flow = :flow and member > :after order by member limit :n;

-- name: hops_wait
-- Takes no lock.
select case when exists (select 1 from holdfast_hop) then 1 else 0 end,
       case when exists (select 1 from holdfast_join where sweep = 1) then 1 else 0 end,
       case when exists (select 1 from holdfast_flow where cancel_upto is not null) then 1 else 0 end,
       case when exists (select 1 from holdfast_flow where callback is not null) then 1 else 0 end;

-- name: page_of_sweeps
-- Not locked: a sweep locks jobs first, and two concurrent sweeps do no harm. Index: holdfast_join_sweep.
select job_id from holdfast_join where sweep = 1 order by job_id limit :n;

-- name: unneeded_upstreams
-- Unfinished upstreams of a released job, which no other job waits for.
select e.upstream
  from holdfast_edge as e
  join holdfast_live as job on job.id = e.upstream and job.cancel_at is null
 where e.downstream = :id and e.kind = 'flow' and e.applied = 1 and e.met is null
   and not exists (select 1 from holdfast_edge as other
                     join holdfast_live as waiter on waiter.id = other.downstream
                    where other.upstream = e.upstream and other.downstream <> :id and other.met is null
                      and waiter.state in ('blocked', 'suspended'))
 order by e.upstream
 limit :n;

-- name: end_sweep
update holdfast_join set sweep = 0 where job_id = :id and kind = 'flow';

-- name: flows_are_over
-- Takes no lock.
select id from (select id from holdfast_flow where finished_at is not null order by finished_at limit :n) as oldest
 where not exists (select 1 from holdfast_job as job where job.flow = oldest.id)
 limit 1;

-- name: prune_flows
-- Of the oldest ended flows, those without members. Index: holdfast_flow_finished.
delete from holdfast_flow
 where id in (select id from holdfast_flow where finished_at is not null order by finished_at limit :n)
   and not exists (select 1 from holdfast_job as job where job.flow = holdfast_flow.id)
returning id;

-- name: members_behind
-- Members that cannot start before this one has ended. With upstreams to spare, another may end in its place.
with recursive behind(id) as (
    select e.downstream
      from holdfast_edge as e join holdfast_join as j on j.job_id = e.downstream and j.kind = 'flow'
     where e.upstream = :id and e.kind = 'flow' and e.applied = 1 and e.met is null and j.spare = 0
     union
    select e.downstream
      from behind join holdfast_edge as e on e.upstream = behind.id
           join holdfast_join as j on j.job_id = e.downstream and j.kind = 'flow'
     where e.kind = 'flow' and e.applied = 1 and e.met is null and j.spare = 0
)
select id from behind;
