"""The worker and its parts. Nothing is imported here: a child process must start without loading all of it."""
