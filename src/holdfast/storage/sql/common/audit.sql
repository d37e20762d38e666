-- name: insert_audit
insert into holdfast_audit (id, at, actor, action, target_kind, target, reason, before, after)
values (:id, :now, :actor, :action, :target_kind, :target, :reason, :before, :after);

-- name: list_audit
-- A missing filter is null; the cast gives Postgres its type.
select id, at, actor, action, target_kind, target, reason, before, after from holdfast_audit
 where (cast(:actor as text) is null or actor = :actor)
   and (cast(:action as text) is null or action = :action)
   and (cast(:target_kind as text) is null or target_kind = :target_kind)
   and (cast(:since as bigint) is null or at >= :since)
   and (cast(:until as bigint) is null or at < :until)
   and (cast(:before as text) is null or id < :before)
 order by id desc
 limit :n;

-- name: list_audit_of
-- The same for one target. Index: holdfast_audit_target.
select id, at, actor, action, target_kind, target, reason, before, after from holdfast_audit
 where target_kind = :target_kind and target = :target
   and (cast(:actor as text) is null or actor = :actor)
   and (cast(:action as text) is null or action = :action)
   and (cast(:since as bigint) is null or at >= :since)
   and (cast(:until as bigint) is null or at < :until)
   and (cast(:before as text) is null or id < :before)
 order by id desc
 limit :n;
