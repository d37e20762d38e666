-- name: outcomes_of
-- Differs in how a list is passed.
select id, state, result, error, reason from holdfast_job
 where id = any(array(select json_array_elements_text(:ids::json))) and finished_at is not null;
