-- Who enqueued a job, and its attempts from before it was retried by hand.
-- oldest writer: 0024

-- Null where it was enqueued before this was kept.
alter table holdfast_job add column created_by text;

-- Written where `attempts` begins from zero again.
alter table holdfast_job add column past_attempts integer not null default 0;
