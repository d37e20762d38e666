-- name: insert_audit
-- The tenant is read from the target where the caller does not give it.
insert into holdfast_audit (id, at, actor, action, target_kind, target, reason, before, after, tenant)
select :id, :now, :actor, :action, :target_kind, :target, :reason, :before, :after,
       coalesce(cast(:tenant as text),
                case when :target_kind = 'job' then (select tenant from holdfast_job where id = :target)
                     when :target_kind = 'flow' then (select tenant from holdfast_flow where id = :target) end,
                '');

-- name: list_audit
-- A missing filter is null; the cast gives Postgres its type.
select id, at, actor, action, target_kind, target, reason, before, after, tenant from holdfast_audit
 where (cast(:actor as text) is null or actor = :actor)
   and (cast(:action as text) is null or action = :action)
   and (cast(:target_kind as text) is null or target_kind = :target_kind)
   and (cast(:tenant as text) is null or tenant = :tenant)
   and (cast(:since as bigint) is null or at >= :since)
   and (cast(:until as bigint) is null or at < :until)
   and (cast(:before as text) is null or id < :before)
 order by id desc
 limit :n;

-- name: list_audit_of_tenant
-- The same for one tenant. Index: holdfast_audit_tenant.
select id, at, actor, action, target_kind, target, reason, before, after, tenant from holdfast_audit
 where tenant = :tenant and tenant <> ''
   and (cast(:actor as text) is null or actor = :actor)
   and (cast(:action as text) is null or action = :action)
   and (cast(:target_kind as text) is null or target_kind = :target_kind)
   and (cast(:target as text) is null or target = :target)
   and (cast(:since as bigint) is null or at >= :since)
   and (cast(:until as bigint) is null or at < :until)
   and (cast(:before as text) is null or id < :before)
 order by id desc
 limit :n;

-- name: was_audited
-- Whether this action was recorded for it before. Index: holdfast_audit_target.
select id from holdfast_audit where target_kind = :target_kind and target = :target and action = :action limit 1;

-- name: list_audit_of
-- The same for one target. Index: holdfast_audit_target.
select id, at, actor, action, target_kind, target, reason, before, after, tenant from holdfast_audit
 where target_kind = :target_kind and target = :target
   and (cast(:actor as text) is null or actor = :actor)
   and (cast(:action as text) is null or action = :action)
   and (cast(:tenant as text) is null or tenant = :tenant)
   and (cast(:since as bigint) is null or at >= :since)
   and (cast(:until as bigint) is null or at < :until)
   and (cast(:before as text) is null or id < :before)
 order by id desc
 limit :n;

-- name: prune_audit
delete from holdfast_audit
 where id in (select id from holdfast_audit where at <= :now - :kept order by at limit :n)
returning id;
