-- Arguments, results, step values and signals that are too large for their rows: the column holds a reference to a blob.
-- oldest writer: 0021

create table holdfast_value (
    job_id text collate "C" not null,
    kind   text not null check (kind in ('payload', 'result', 'step', 'signal')),
    -- The step's key, or the signal's number.
    key    text collate "C" not null default '',
    blob   text collate "C" not null,
    primary key (job_id, kind, key)
);
create index holdfast_value_blob on holdfast_value (blob);

create function holdfast_forget_values() returns trigger language plpgsql as $$
begin
    delete from holdfast_value where job_id = any(array(select id from gone));
    return null;
end $$;
create trigger holdfast_job_values after delete on holdfast_job
referencing old table as gone for each statement
execute function holdfast_forget_values();

create trigger holdfast_value_added after insert on holdfast_value for each row
execute function holdfast_keep_blob();

create trigger holdfast_value_gone after delete on holdfast_value for each row
execute function holdfast_release_blob();
