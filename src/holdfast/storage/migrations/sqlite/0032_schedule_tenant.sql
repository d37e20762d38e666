-- The tenant of a schedule is a column and a part of its key. It was a prefix of the name, `acme/nightly`, and an option of
-- its jobs. A name keeps its prefix where the tenant has a schedule of the shorter name already.

-- Copied and not renamed: a rename fails where any view of the file is broken, also one that is not ours.
create temporary table holdfast_schedule_old as select * from holdfast_schedule;
create temporary table holdfast_cron_tick_old as select * from holdfast_cron_tick;
drop table holdfast_schedule;
drop table holdfast_cron_tick;
create temporary table holdfast_schedule_key as
select old.name as was, of.tenant,
       case when substr(old.name, 1, length(of.tenant) + 1) = of.tenant || '/'
             and length(old.name) > length(of.tenant) + 1 and of.tenant <> ''
             and not exists (select 1 from holdfast_schedule_old as twin
                              where twin.name = substr(old.name, length(of.tenant) + 2)
                                and coalesce(json_extract(twin.options, '$.tenant'), '') = of.tenant)
            then substr(old.name, length(of.tenant) + 2) else old.name end as name
  from holdfast_schedule_old as old
  join (select name, coalesce(json_extract(options, '$.tenant'), '') as tenant from holdfast_schedule_old) as of
    on of.name = old.name;

create table holdfast_schedule (
    -- Whose jobs it makes; empty for none.
    tenant        text not null,
    name          text not null check (length(name) between 1 and 128),
    task          text not null check (length(task) between 1 and 128),
    payload       text not null,
    queue         text not null check (length(queue) between 1 and 128),
    -- The rest of the job to be made.
    options       text not null,
    -- The parameter that takes the tick's time, if any.
    tick_argument text,
    expression    text,
    every         integer check (every > 0),
    zone          text not null,
    state         text not null check (state in ('active', 'paused', 'broken')),
    missed        text not null check (missed in ('skip', 'one', 'all')),
    max_missed    integer not null,
    overlap       text not null check (overlap in ('allow', 'skip', 'cancel_previous')),
    jitter        integer not null,
    cooldown      integer not null,
    -- Where an interval counts from: its creation, its last change, or the end of its last pause.
    anchor        integer not null,
    -- Every tick up to here has been dealt with. It never goes back.
    last_tick     integer not null,
    -- When to look again; null unless active.
    next_tick     integer,
    -- Grows with every change of what it does and when.
    version       integer not null default 1,
    origin        text not null check (origin in ('code', 'runtime')),
    -- The fields that an operator has changed: code no longer does.
    edited        text not null default '[]',
    last_job      text,
    fired         integer not null default 0,
    skipped       integer not null default 0,
    last_error    text,
    -- Ticks before this are forgotten and may not be made again.
    pruned_to     integer,
    created_at    integer not null,
    updated_at    integer not null,
    check ((expression is null) <> (every is null)),
    check ((state = 'active') = (next_tick is not null)),
    primary key (tenant, name)
);

insert into holdfast_schedule (
    tenant, name, task, payload, queue, options, tick_argument, expression, every, zone, state, missed, max_missed,
    overlap, jitter, cooldown, anchor, last_tick, next_tick, version, origin, edited, last_job, fired, skipped,
    last_error, pruned_to, created_at, updated_at)
select key.tenant, key.name, task, payload, queue, json_remove(options, '$.tenant'), tick_argument, expression, every,
       zone, state, missed, max_missed, overlap, jitter, cooldown, anchor, last_tick, next_tick, version, origin,
       edited, last_job, fired, skipped, last_error, pruned_to, created_at, updated_at
  from holdfast_schedule_old as old join holdfast_schedule_key as key on key.was = old.name;
drop table holdfast_schedule_old;
create index holdfast_schedule_due on holdfast_schedule (next_tick, tenant, name) where next_tick is not null;

create table holdfast_cron_tick (
    tenant   text not null,
    schedule text not null,
    tick     integer not null,
    job_id   text not null,
    primary key (tenant, schedule, tick)
) without rowid;
insert into holdfast_cron_tick (tenant, schedule, tick, job_id)
select coalesce(key.tenant, ''), coalesce(key.name, old.schedule), old.tick, old.job_id
  from holdfast_cron_tick_old as old left join holdfast_schedule_key as key on key.was = old.schedule;
drop table holdfast_cron_tick_old;
drop table holdfast_schedule_key;

-- The audit log has had the tenant beside the target.
update holdfast_audit set target = substr(target, length(tenant) + 2)
 where target_kind = 'schedule' and tenant <> '' and substr(target, 1, length(tenant) + 1) = tenant || '/'
   and not exists (select 1 from holdfast_schedule as kept
                    where kept.tenant = holdfast_audit.tenant and kept.name = holdfast_audit.target);
