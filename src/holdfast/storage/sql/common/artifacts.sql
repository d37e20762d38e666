-- name: artifacts_of
select name, content_type, size, sha256, created_at from holdfast_artifact where job_id = :job_id order by name;

-- name: artifact_of
select name, content_type, size, sha256, created_at, blob from holdfast_artifact
 where job_id = :job_id and name = :name;

-- name: artifact_data
select data from holdfast_artifact where job_id = :job_id and name = :name;

-- name: completion_of
-- The job's result, if it has one.
select case when state = 'succeeded' then result end, finished_at from holdfast_any_job where id = :job_id;

-- name: add_artifact
insert into holdfast_artifact (job_id, name, key, content_type, size, sha256, epoch, created_at, blob, data)
values (:job_id, :name, :key, :content_type, :size, :sha256, :epoch, :created_at, :blob, :data)
    on conflict do nothing
returning name;

-- name: fork_artifacts
-- Artifacts that the fork's own journal lists. Their bytes are the same.
insert into holdfast_artifact (job_id, name, key, content_type, size, sha256, epoch, created_at, blob, data)
select :fork, a.name, a.key, a.content_type, a.size, a.sha256, 0, a.created_at, a.blob, a.data
  from holdfast_artifact as a
 where a.job_id = :id and a.key in (select key from holdfast_step where job_id = :fork);

-- name: begin_blob
-- Only for the run that owns the job. Checked again when the artifact is stored.
insert into holdfast_blob (id, job_id, epoch, state, at)
select :id, id, epoch, 'writing', :now from holdfast_live
 where id = :job_id and state = 'running' and owner = :owner and epoch = :epoch
returning id;

-- name: blob_part
select data from holdfast_blob_part where blob = :blob and n = :part;

-- name: doom_blob
-- Only one that no artifact uses.
update holdfast_blob set state = 'doomed' where id = :id and state = 'writing' returning id;

-- name: abandoned_blobs
-- No run can use them any more: an epoch never comes back. Index: holdfast_blob_loose.
select id from holdfast_blob
 where state = 'writing' and at <= :now - :age
   and not exists (select 1 from holdfast_live as job
                    where job.id = holdfast_blob.job_id and job.state = 'running' and job.epoch = holdfast_blob.epoch)
 order by at
 limit :n;

-- name: doomed_blobs
-- Index: holdfast_blob_loose.
select id from holdfast_blob where state = 'doomed' order by at limit :n;

-- name: drop_parts
delete from holdfast_blob_part
 where blob = :blob and n in (select n from holdfast_blob_part where blob = :blob order by n limit :n)
returning n;

-- name: drop_blob
delete from holdfast_blob where id = :id and state = 'doomed' returning id;

-- name: orphaned_artifacts
select a.job_id from holdfast_artifact as a
 where not exists (select 1 from holdfast_job as job where job.id = a.job_id)
 limit :n;

-- name: missing_blobs
select a.job_id from holdfast_artifact as a
 where a.blob is not null
   and not exists (select 1 from holdfast_blob as b where b.id = a.blob and b.state = 'kept')
 limit :n;

-- name: miscounted_blobs
select b.id from holdfast_blob as b
 where b.refs <> (select count(*) from holdfast_artifact as a where a.blob = b.id)
                 + (select count(*) from holdfast_value as v where v.blob = b.id)
    or (b.state = 'kept') <> (b.refs > 0)
 limit :n;

-- name: open_blob
-- For a value: its bytes and what refers to it follow in the same transaction.
insert into holdfast_blob (id, job_id, epoch, state, at) values (:id, :job_id, 0, 'writing', :now);

-- name: blob_parts
select data from holdfast_blob_part where blob = :blob order by n;

-- name: add_value
insert into holdfast_value (job_id, kind, key, blob) values (:job_id, :kind, :key, :blob);

-- name: drop_value
delete from holdfast_value where job_id = :job_id and kind = :kind and key = :key;

-- name: fork_values
-- The arguments, and the steps that the fork has in its own journal. Their bytes are the same.
insert into holdfast_value (job_id, kind, key, blob)
select :fork, v.kind, v.key, v.blob
  from holdfast_value as v
 where v.job_id = :id
   and (v.kind = 'payload'
        or (v.kind = 'step' and exists (select 1 from holdfast_step as s where s.job_id = :fork and s.key = v.key)));

-- name: orphaned_values
select v.job_id from holdfast_value as v
 where not exists (select 1 from holdfast_job as job where job.id = v.job_id)
 limit :n;

-- name: missing_values
select v.job_id from holdfast_value as v
 where not exists (select 1 from holdfast_blob as b where b.id = v.blob and b.state = 'kept')
 limit :n;
