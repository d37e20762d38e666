-- These differ in how a list is passed, and only Postgres has rows that others may have locked.

-- name: free_pages
-- Free pages, all pages, and whether free ones can be given back in steps.
select (select freelist_count from pragma_freelist_count), (select page_count from pragma_page_count),
       (select auto_vacuum = 2 from pragma_auto_vacuum);

-- name: give_back_page
-- One page: Python's sqlite3 makes a single step of a pragma that returns no columns, whatever number is requested.
pragma incremental_vacuum(1);

-- The catalogues differ, and the reading of lists; only SQLite checks its own pages on request.

-- name: schema_objects
select type, name from sqlite_master where name like 'holdfast\_%' escape '\' order by 1, 2;

-- name: check_pages
-- One row that says ok, or a row for each fault.
select quick_check from pragma_quick_check(:n);

-- name: miscounted_lanes
select lane.key from holdfast_lane as lane
 where lane.running <> (select count(*) from holdfast_live as job, json_each(job.holds) as held
                         where job.state = 'running' and held.value = lane.key)
 limit :n;
