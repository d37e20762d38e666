-- What a frame came from, and which other things it belongs to.
-- oldest writer: 0024

alter table holdfast_frame add column source text not null default '';
alter table holdfast_frame add column correlation_id text not null default '';
