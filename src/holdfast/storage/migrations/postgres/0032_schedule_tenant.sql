-- The tenant of a schedule is a column and a part of its key. It was a prefix of the name, `acme/nightly`, and an option of
-- its jobs. A name keeps its prefix where the tenant has a schedule of the shorter name already.

drop view holdfast_schedules;
create temporary table holdfast_schedule_key as
select old.name as was, of.tenant,
       case when substr(old.name, 1, length(of.tenant) + 1) = of.tenant || '/'
             and length(old.name) > length(of.tenant) + 1 and of.tenant <> ''
             and not exists (select 1 from holdfast_schedule as twin
                              where twin.name = substr(old.name, length(of.tenant) + 2)
                                and coalesce(twin.options::json ->> 'tenant', '') = of.tenant)
            then substr(old.name, length(of.tenant) + 2) else old.name end as name
  from holdfast_schedule as old
  join (select name, coalesce(options::json ->> 'tenant', '') as tenant from holdfast_schedule) as of
    on of.name = old.name;

alter table holdfast_schedule
    -- Whose jobs it makes; empty for none.
    add column tenant text collate "C" not null default '',
    drop constraint holdfast_schedule_pkey;
update holdfast_schedule as old
   set tenant = key.tenant, name = key.name, options = (old.options::jsonb - 'tenant')::text
  from holdfast_schedule_key as key
 where key.was = old.name;
alter table holdfast_schedule alter column tenant drop default, add primary key (tenant, name);
drop index holdfast_schedule_due;
create index holdfast_schedule_due on holdfast_schedule (next_tick, tenant, name) where next_tick is not null;

alter table holdfast_cron_tick
    add column tenant text collate "C" not null default '',
    drop constraint holdfast_cron_tick_pkey;
update holdfast_cron_tick as old
   set tenant = key.tenant, schedule = key.name
  from holdfast_schedule_key as key
 where key.was = old.schedule;
alter table holdfast_cron_tick alter column tenant drop default, add primary key (tenant, schedule, tick);
drop table holdfast_schedule_key;

-- The audit log has had the tenant beside the target.
update holdfast_audit set target = substr(target, length(tenant) + 2)
 where target_kind = 'schedule' and tenant <> '' and substr(target, 1, length(tenant) + 1) = tenant || '/'
   and not exists (select 1 from holdfast_schedule as kept
                    where kept.tenant = holdfast_audit.tenant and kept.name = holdfast_audit.target);

-- For people and BI tools: the same rows with real timestamps.
create view holdfast_schedules as
select tenant, name, task, queue, expression, every / 1e6 as every_seconds, zone, state, missed, overlap, origin, fired,
       skipped, last_error, last_job,
       to_timestamp(last_tick / 1e6) as last_tick,
       to_timestamp(next_tick / 1e6) as next_tick
  from holdfast_schedule;
