-- Routes that no live job has are not offered to workers: each one makes every claim longer.
-- Code that does not know of it would enqueue on a route that workers no longer see, so it may not write.

-- Since when no job that has not ended has this route; null while one has it.
alter table holdfast_route add column idle_since integer;

create trigger holdfast_job_route after update of finished_at on holdfast_job
when old.finished_at is not null and new.finished_at is null
begin
    update holdfast_route set idle_since = null where id = new.route and idle_since is not null;
end;
