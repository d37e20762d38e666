-- What jobs leave behind besides their result: named bytes with a type. Few bytes are in the row, many in a blob.
-- oldest writer: 0006

create table holdfast_artifact (
    job_id       text not null,
    name         text not null,
    -- The step that stored it.
    key          text not null,
    content_type text not null,
    size         integer not null,
    -- In hexadecimal.
    sha256       text not null,
    epoch        integer not null,
    created_at   integer not null,
    blob         text,
    -- Last, so that a list need not read over it.
    data         blob,
    primary key (job_id, name),
    check ((blob is null) <> (data is null))
);
create index holdfast_artifact_blob on holdfast_artifact (blob) where blob is not null;

-- Bytes that are too many for a row: in a file beside the database of this id, or in parts below. Its row is there
-- before the first byte and goes after the last one: whatever is interrupted, somebody knows of it.
create table holdfast_blob (
    id     text not null primary key,
    -- Who writes it. Once no run of that epoch is left, nobody can keep it any more.
    job_id text not null,
    epoch  integer not null,
    -- Being written, kept by artifacts, or to be removed.
    state  text not null check (state in ('writing', 'kept', 'doomed')),
    -- How many artifacts there are of it: a fork has the same bytes as its original.
    refs   integer not null default 0,
    at     integer not null
) without rowid;
create index holdfast_blob_loose on holdfast_blob (state, at) where state <> 'kept';

-- Only of a database in memory, beside which there can be no files.
create table holdfast_blob_part (
    blob text not null,
    n    integer not null,
    data blob not null,
    primary key (blob, n)
);

-- Whoever deletes a job, and by whatever code, deletes its artifacts in the same commit.
create trigger holdfast_job_artifacts after delete on holdfast_job
begin
    delete from holdfast_artifact where job_id = old.id;
end;

create trigger holdfast_artifact_added after insert on holdfast_artifact when new.blob is not null
begin
    select raise(abort, 'the blob of the artifact is gone')
     where not exists (select 1 from holdfast_blob where id = new.blob and state <> 'doomed');
    update holdfast_blob set refs = refs + 1, state = 'kept' where id = new.blob;
end;

-- The tombstone: the bytes themselves are removed when this is committed.
create trigger holdfast_artifact_gone after delete on holdfast_artifact when old.blob is not null
begin
    update holdfast_blob
       set refs = refs - 1, state = case when refs <= 1 then 'doomed' else state end
     where id = old.blob;
end;
