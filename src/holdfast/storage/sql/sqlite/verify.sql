-- The catalogues differ, and only SQLite checks its own pages on request.

-- name: schema_objects
select type, name from sqlite_master where name like 'holdfast\_%' escape '\' order by 1, 2;

-- name: check_pages
-- One row that says ok, or a row for each fault.
select quick_check from pragma_quick_check(:n);
