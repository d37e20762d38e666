-- The health of the worker processes and of the database, one row for each minute.
-- oldest writer: 0024

create table holdfast_health (
    -- When the minute begins.
    minute integer not null primary key,
    -- A JSON object of the figures.
    health text not null
);
