"""The worker and its parts. Nothing is imported here: a child process must start without the whole engine."""
