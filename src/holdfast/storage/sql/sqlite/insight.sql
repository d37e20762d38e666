-- name: outcomes_of
-- Differs in how a list is passed.
select id, state, result, error, reason from holdfast_job
 where id in (select value from json_each(:ids)) and finished_at is not null;
