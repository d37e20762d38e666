-- SQLite holds the write lock and takes its rows one by one; Postgres locks the rows and takes them as one document.

-- name: lock_stream
-- The job's row is locked until the commit: the job cannot be taken away between the check and the frames.
with item as materialized (
    select i.* from json_to_recordset(:items::json) as i(n int, job_id text, owner text, epoch bigint)
), mine as materialized (
    select j.id, item.n from holdfast_live as j join item on item.job_id = j.id
     where j.state = 'running' and j.owner = item.owner and j.epoch = item.epoch
     order by j.id
       for share of j
), held as (
    insert into holdfast_stream (job_id) select id from mine order by id
        on conflict (job_id) do update set head = holdfast_stream.head
    returning job_id, head, live, trimmed, bytes, rate, rate_at, writer, batch
)
select mine.n, held.head, held.live, held.trimmed, held.bytes, held.rate, held.rate_at, held.writer, held.batch, :now
  from held join mine on mine.id = held.job_id;

-- name: lock_summary
select id from holdfast_live where id = :job_id and state = 'running' and owner = :owner and epoch = :epoch
   for update;

-- name: move_stream
-- A progress field that is not given stays, unless it is of an earlier run.
update holdfast_stream as s
   set head = i.head, live = i.live, trimmed = i.trimmed, bytes = i.bytes, rate = i.rate, rate_at = i.rate_at,
       writer = i.writer, batch = i.batch,
       percent = case when i.run is null or s.run = i.run then coalesce(i.percent, s.percent) else i.percent end,
       message = case when i.run is null or s.run = i.run then coalesce(i.message, s.message) else i.message end,
       stage = case when i.run is null or s.run = i.run then coalesce(i.stage, s.stage) else i.stage end,
       progress_at = case when i.run is null then s.progress_at else :now end,
       run = coalesce(i.run, s.run)
  from json_to_recordset(:items::json)
    as i(n int, job_id text, head bigint, live bigint, trimmed bigint, bytes bigint, rate double precision,
         rate_at bigint, writer text, batch bigint, run text, percent double precision, message text, stage text)
 where s.job_id = i.job_id
returning i.n;

-- name: copy_frames
copy holdfast_frame (
    job_id, seq, live, best_effort, kind, encoding, data, step, generation, attempt, at, source,
    correlation_id)
from stdin;

-- name: forget_frames
delete from holdfast_frame where job_id = any(array(select json_array_elements_text(:ids::json)));

-- name: forget_streams
delete from holdfast_stream where job_id = any(array(select json_array_elements_text(:ids::json)));

-- name: forget_summaries
delete from holdfast_summary where job_id = any(array(select json_array_elements_text(:ids::json)));
