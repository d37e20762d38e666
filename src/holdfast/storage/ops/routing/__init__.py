"""Routes, affinities and grants: which worker may run a job."""
