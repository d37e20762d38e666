-- What operators did, and what they set for a queue.

-- One row per action, in the same commit as the action. Ids are time-ordered.
create table holdfast_audit (
    id          text not null primary key,
    at          integer not null,
    actor       text not null,
    action      text not null,
    target_kind text not null,
    target      text not null,
    reason      text not null default '',
    -- JSON; what was there, and what is there now or how many were changed.
    before      text,
    after       text
);
create index holdfast_audit_at on holdfast_audit (at);
create index holdfast_audit_target on holdfast_audit (target_kind, target, id);

-- What a queue's jobs get where neither the call nor the task says it; durations in microseconds, null is the default.
alter table holdfast_queue add column retry text;
alter table holdfast_queue add column timeout integer;
-- How long a finished job is kept, by how it ended; 0 is not at all.
alter table holdfast_queue add column keep_succeeded integer;
alter table holdfast_queue add column keep_failed integer;
alter table holdfast_queue add column keep_cancelled integer;
alter table holdfast_queue add column keep_expired integer;
alter table holdfast_queue add column keep_skipped integer;
-- How long the result of a success is kept; null is as long as the job.
alter table holdfast_queue add column keep_result integer;

-- With queue and state, what retention and counts read of finished jobs is in the index.
drop index holdfast_job_finished;
create index holdfast_job_ended on holdfast_job (finished_at, queue, state) where finished_at is not null;

-- Lists and counts read these, whatever the number of finished jobs. Together they add a tenth to what enqueue, claim
-- and finish of a job cost the store: 67 to 73 µs on SQLite, 90 to 100 on Postgres.
-- Without IN: SQLite would build its list anew for every row that is written.
create index holdfast_job_queued on holdfast_job (queue, id, not_before) where due is not null;
create index holdfast_job_unsuccessful on holdfast_job (state, queue, id, task)
    where finished_at is not null and state <> 'succeeded';
create index holdfast_job_history on holdfast_job (task, queue, id) where finished_at is not null;
