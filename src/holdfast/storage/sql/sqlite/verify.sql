-- The catalogues differ, and the reading of lists; only SQLite checks its own pages on request.

-- name: schema_objects
select type, name from sqlite_master where name like 'holdfast\_%' escape '\' order by 1, 2;

-- name: check_pages
-- One row that says ok, or a row for each fault.
select quick_check from pragma_quick_check(:n);

-- name: miscounted_lanes
select lane.key from holdfast_lane as lane
 where lane.running <> (select count(*) from holdfast_job as job, json_each(job.holds) as held
                         where job.state = 'running' and held.value = lane.key)
 limit :n;
