-- SQLite holds the write lock and takes its rows one by one; Postgres locks the rows and takes them as one document.

-- name: lock_stream
insert into holdfast_stream (job_id)
select id from holdfast_live
 where id = :job_id and state = 'running' and owner = :owner and epoch = :epoch
    on conflict (job_id) do update set head = head
returning head, live, trimmed, bytes, rate, rate_at, writer, batch, :now;

-- name: lock_summary
select id from holdfast_live where id = :job_id and state = 'running' and owner = :owner and epoch = :epoch;

-- name: move_stream
-- A progress field that is not given stays, unless it is of an earlier run.
update holdfast_stream
   set head = :head, live = :live, trimmed = :trimmed, bytes = :bytes, rate = :rate, rate_at = :rate_at,
       writer = :writer, batch = :batch,
       percent = case when :run is null or run = :run then coalesce(:percent, percent) else :percent end,
       message = case when :run is null or run = :run then coalesce(:message, message) else :message end,
       stage = case when :run is null or run = :run then coalesce(:stage, stage) else :stage end,
       progress_at = case when :run is null then progress_at else :now end,
       run = coalesce(:run, run)
 where job_id = :job_id;

-- name: copy_frames
insert into holdfast_frame (
    job_id, seq, live, best_effort, kind, encoding, data, step, generation, attempt, at, source,
    correlation_id)
select :job_id, :seq, :live, :best_effort, :kind, :encoding, :data, :step, :generation, :attempt, :at, :source,
       :correlation_id
  from @rows;

-- name: forget_frames
delete from holdfast_frame where job_id in (select value from json_each(:ids));

-- name: forget_streams
delete from holdfast_stream where job_id in (select value from json_each(:ids));

-- name: forget_summaries
delete from holdfast_summary where job_id in (select value from json_each(:ids));
