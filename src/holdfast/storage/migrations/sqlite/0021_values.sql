-- Arguments, results, step values and signals that are too large for their rows: the column holds a reference to a blob.
-- oldest writer: 0021

create table holdfast_value (
    job_id text not null,
    kind   text not null check (kind in ('payload', 'result', 'step', 'signal')),
    -- The step's key, or the signal's number.
    key    text not null default '',
    blob   text not null,
    primary key (job_id, kind, key)
) without rowid;
create index holdfast_value_blob on holdfast_value (blob);

create trigger holdfast_job_values after delete on holdfast_job
begin
    delete from holdfast_value where job_id = old.id;
end;

create trigger holdfast_value_added after insert on holdfast_value
begin
    select raise(abort, 'the blob of the value is gone')
     where not exists (select 1 from holdfast_blob where id = new.blob and state <> 'doomed');
    update holdfast_blob set refs = refs + 1, state = 'kept' where id = new.blob;
end;

create trigger holdfast_value_gone after delete on holdfast_value
begin
    update holdfast_blob
       set refs = refs - 1, state = case when refs <= 1 then 'doomed' else state end
     where id = old.blob;
end;
