-- These differ in how a list is passed, and in that SQLite has one writer and needs no locks on rows.

-- name: add_part
-- A repetition after an unknown outcome writes the same bytes in the same place. The lock keeps a transaction that
-- marks the blob for removal from missing a part.
with mine as materialized (
    select id from holdfast_blob where id = :blob and state = 'writing' for share
)
insert into holdfast_blob_part (blob, n, data)
select id, :part, :data from mine
    on conflict (blob, n) do update set data = excluded.data
returning n;

-- name: remove_artifacts
delete from holdfast_artifact where job_id = any(array(select json_array_elements_text(:ids::json)));

-- name: forget_stored
delete from holdfast_step
 where kind = 'artifact' and job_id = any(array(select json_array_elements_text(:ids::json)));

-- name: known_blobs
select id from holdfast_blob where id = any(array(select json_array_elements_text(:ids::json)));

-- name: drop_values
delete from holdfast_value where kind = :kind and job_id = any(array(select json_array_elements_text(:ids::json)));
