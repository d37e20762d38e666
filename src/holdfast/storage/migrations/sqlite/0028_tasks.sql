-- What the jobs of each task did, one row for each task and closed minute.
-- oldest writer: 0024

create table holdfast_task_minute (
    -- When the minute begins.
    minute integer not null,
    task   text not null,
    -- Everything that was counted: a later roll replaces this one only if it found more.
    count  integer not null,
    -- A JSON object: counters, and how run time and wait are distributed.
    figures text not null,
    primary key (minute, task)
);
