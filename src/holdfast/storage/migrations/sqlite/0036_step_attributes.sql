-- Attributes of a step, such as the model that it called and the tokens that it used.
-- oldest writer: 0034

alter table holdfast_step add column attributes text;
