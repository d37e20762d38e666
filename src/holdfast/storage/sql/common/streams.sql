-- Every write here is made under the lock of its job's row, and under that of its stream's head.

-- name: supersede_frames
-- Frames of a step from before its restart.
update holdfast_frame set superseded = 1
 where job_id = :job_id and step = :step and step <> '' and superseded = 0
returning seq, best_effort;

-- name: trim_frames
delete from holdfast_frame where job_id = :job_id and best_effort = 1 and live <= :upto;

-- name: read_stream
-- The frames after a cursor and the head, in one statement: a finished job's frames are all there, because none is
-- appended later. A job without frames gives one row.
select j.finished_at, coalesce(s.head, 0), coalesce(s.live, 0), coalesce(s.trimmed, 0),
       f.seq, f.live, f.best_effort, f.kind, f.encoding, f.data, f.step, f.generation, f.attempt, f.at,
       f.source, f.correlation_id
  from holdfast_any_job as j
  left join holdfast_stream as s on s.job_id = j.id
  left join (select * from holdfast_frame
              where job_id = :job_id and (seq, live) > (:seq, :live) and (seq, live) <= (:until_seq, :until_live)
                and superseded = 0
                and best_effort <= :best_effort
              order by seq, live
              limit :n) as f on f.job_id = j.id
 where j.id = :job_id
 order by f.seq, f.live;

-- name: has_stream
select 1 from holdfast_stream where job_id = :job_id;

-- name: get_progress
select s.percent, s.message, s.stage, s.progress_at
  from holdfast_job as j left join holdfast_stream as s on s.job_id = j.id
 where j.id = :job_id;

-- name: stage_of
-- The stage that a run reported last.
select stage from holdfast_stream where job_id = :job_id and run = :run;

-- name: get_summary
select s.document, s.version, s.at
  from holdfast_job as j left join holdfast_summary as s on s.job_id = j.id
 where j.id = :job_id;

-- name: put_summary
insert into holdfast_summary (job_id, document, version, at) values (:job_id, :document, :version, :now)
    on conflict (job_id) do update set document = excluded.document, version = excluded.version, at = excluded.at;
