"""Child processes for isolated jobs, and worker processes under a supervisor."""
