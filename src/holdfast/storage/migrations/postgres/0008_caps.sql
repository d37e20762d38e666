-- How many finished jobs a queue keeps at most, however long they would be kept; null is without bound.
alter table holdfast_queue add column cap bigint check (cap >= 0);
