-- name: ensure_quota
insert into holdfast_quota (key, tenant, name, allowed, span, concurrency, origin, created_at)
values (:key, :tenant, :name, :allowed, :span, :concurrency, :origin, :now)
    on conflict (key) do update
   set allowed = excluded.allowed, span = excluded.span, concurrency = excluded.concurrency, origin = excluded.origin
 where (holdfast_quota.origin = 'code' or excluded.origin = 'operator')
   and (holdfast_quota.allowed is distinct from excluded.allowed or holdfast_quota.span is distinct from excluded.span
        or holdfast_quota.concurrency is distinct from excluded.concurrency
        or holdfast_quota.origin <> excluded.origin)
returning key;

-- name: get_quota
-- A job counts as active while it runs under the epoch that was admitted.
select q.key, q.tenant, q.name, q.allowed, q.span, q.concurrency, q.admitted, q.refused, q.origin,
       (select count(*) from holdfast_admission as a where a.quota = q.key and a.at > :now - q.span),
       (select count(*) from holdfast_admission as a
         where a.quota = q.key and a.active = 1
           and case when a.job_id is null then case when a.until_at > :now then 1 else 0 end
                    when a.epoch = (select job.epoch from holdfast_job as job
                                     where job.id = a.job_id and job.state = 'running') then 1 else 0 end = 1)
  from holdfast_quota as q
 where q.key = :key;

-- name: find_quota
-- A tenant's own of that name, or else the one of no tenant.
select key from holdfast_quota where key in (:own, :shared) order by case key when :own then 0 else 1 end limit 1;

-- name: list_quotas
select key from holdfast_quota
 where key > :after and (cast(:tenant as text) is null or tenant = :tenant)
 order by key limit :n;

-- name: delete_quota
delete from holdfast_quota where key = :key returning key;

-- name: delete_admissions
delete from holdfast_admission where quota = :key;

-- name: count_admission
update holdfast_quota set admitted = admitted + :admitted, refused = refused + :refused where key = :key;

-- name: get_admission
select at, until_at, job_id, epoch,
       active = 1 and case when job_id is null then until_at > :now
                           else epoch = (select job.epoch from holdfast_job as job
                                          where job.id = holdfast_admission.job_id and job.state = 'running') end,
       :now
  from holdfast_admission
 where quota = :quota and holder = :holder;

-- name: room_in_window
-- The admission that must leave the window before there is room; none if there is. Index: holdfast_admission_at.
select at + :span - :now from holdfast_admission
 where quota = :quota and at > :now - :span
 order by at desc
 limit 1 offset :most;

-- name: put_admission
insert into holdfast_admission (quota, holder, at, until_at, job_id, epoch, active)
values (:quota, :holder, :now, :now + :kept, :job_id, :epoch, 1)
    on conflict (quota, holder) do update
   set at = excluded.at, until_at = excluded.until_at, job_id = excluded.job_id, epoch = excluded.epoch, active = 1;

-- name: take_again
-- Admitted before within the window: it counts once there, and again among the active ones.
update holdfast_admission
   set job_id = :job_id, epoch = :epoch, active = 1,
       until_at = case when until_at > :now + :kept then until_at else :now + :kept end
 where quota = :quota and holder = :holder;

-- name: sweep_window
-- Admissions that count neither in the window nor among the active ones.
delete from holdfast_admission
 where quota = :quota and until_at <= :now
   and (active = 0
        or job_id is null
        or coalesce((select job.epoch from holdfast_job as job
                      where job.id = holdfast_admission.job_id and job.state = 'running'), -1) <> epoch);

-- name: end_admission
update holdfast_admission set active = 0 where quota = :quota and holder = :holder and active = 1 returning holder;

-- name: expired_admissions
-- Index: holdfast_admission_until.
delete from holdfast_admission
 where (quota, holder) in (select quota, holder from holdfast_admission where until_at <= :now and active = 0
                            order by until_at limit :n)
returning quota;
