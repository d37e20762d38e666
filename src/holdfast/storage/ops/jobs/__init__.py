"""Jobs: enqueue, claim, finish, control, find, count, explain and delete."""
