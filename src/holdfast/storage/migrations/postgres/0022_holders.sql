-- Workers of the lease API belong to the token that registered them, and a token may be confined to queues and tasks.
-- oldest writer: 0014

-- The id of the token, or how else its caller was known; '' is a worker of this package, or of an app's own process.
alter table holdfast_worker add column holder text not null default '';
-- JSON arrays; an empty one confines to nothing.
alter table holdfast_token add column queues text not null default '[]';
alter table holdfast_token add column tasks text not null default '[]';
