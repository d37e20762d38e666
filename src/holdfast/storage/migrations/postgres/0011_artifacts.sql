-- What jobs leave behind besides their result: named bytes with a type. Few bytes are in the row, many in a blob.
-- oldest writer: 0006

create table holdfast_artifact (
    job_id       text collate "C" not null,
    name         text collate "C" not null,
    -- The step that stored it.
    key          text collate "C" not null,
    content_type text not null,
    size         bigint not null,
    -- In hexadecimal.
    sha256       text not null,
    epoch        bigint not null,
    created_at   bigint not null,
    blob         text collate "C",
    data         bytea,
    primary key (job_id, name),
    check ((blob is null) <> (data is null))
);
create index holdfast_artifact_blob on holdfast_artifact (blob) where blob is not null;

-- Bytes that are too many for a row, in parts below. Its row is there before the first part and goes after the last
-- one: whatever is interrupted, somebody knows of it.
create table holdfast_blob (
    id     text collate "C" not null primary key,
    -- Who writes it. Once no run of that epoch is left, nobody can keep it any more.
    job_id text collate "C" not null,
    epoch  bigint not null,
    -- Being written, kept by artifacts, or to be removed.
    state  text not null check (state in ('writing', 'kept', 'doomed')),
    -- How many artifacts there are of it: a fork has the same bytes as its original.
    refs   integer not null default 0,
    at     bigint not null
);
create index holdfast_blob_loose on holdfast_blob (state, at) where state <> 'kept';

create table holdfast_blob_part (
    blob text collate "C" not null,
    n    integer not null,
    data bytea not null,
    primary key (blob, n)
);
-- Most that is as large as this has been compressed by whoever made it.
alter table holdfast_blob_part alter column data set storage external;

-- Whoever deletes a job, and by whatever code, deletes its artifacts in the same commit.
create function holdfast_forget_artifacts() returns trigger language plpgsql as $$
begin
    delete from holdfast_artifact where job_id = any(array(select id from gone));
    return null;
end $$;
create trigger holdfast_job_artifacts after delete on holdfast_job
referencing old table as gone for each statement
execute function holdfast_forget_artifacts();

-- A blob that was doomed meanwhile fails like any other race: the whole is tried again, and finds its job gone.
create function holdfast_keep_blob() returns trigger language plpgsql as $$
begin
    update holdfast_blob set refs = refs + 1, state = 'kept' where id = new.blob and state <> 'doomed';
    if not found then
        raise exception 'the blob of the artifact is gone' using errcode = '40001';
    end if;
    return null;
end $$;
create trigger holdfast_artifact_added after insert on holdfast_artifact for each row
when (new.blob is not null)
execute function holdfast_keep_blob();

-- The tombstone: the bytes themselves are removed when this is committed.
create function holdfast_release_blob() returns trigger language plpgsql as $$
begin
    update holdfast_blob
       set refs = refs - 1, state = case when refs <= 1 then 'doomed' else state end
     where id = old.blob;
    return null;
end $$;
create trigger holdfast_artifact_gone after delete on holdfast_artifact for each row
when (old.blob is not null)
execute function holdfast_release_blob();
