-- How often the job's worker was lost since its last outcome of its own: from the second loss on it is a suspect.
alter table holdfast_job add column losses integer not null default 0;
