-- A job's title, for people.
-- oldest writer: 0032

alter table holdfast_job add column title text;
