-- What workers have loaded, which versions of their tasks they have, and grants to one worker by its name.
-- oldest writer: 0009

-- The affinities that it has loaded, the last used first, as JSON.
alter table holdfast_worker add column resident text not null default '[]';
-- The versions of its tasks, as a JSON object.
alter table holdfast_worker add column versions text not null default '{}';

-- Until it expires, only the worker of that name may claim the job: its route requires `worker:NAME` meanwhile. That
-- route has no row of its own, or routes would pile up; the worker finds it here.
create table holdfast_grant (
    job_id     text not null primary key,
    worker     text not null check (length(worker) between 1 and 128),
    route      integer not null,
    queue      text not null,
    requires   text not null,
    affinity   text not null,
    version    text not null,
    granted_at integer not null,
    expires_at integer not null
) without rowid;
create index holdfast_grant_route on holdfast_grant (route);
create index holdfast_grant_expiry on holdfast_grant (expires_at);
