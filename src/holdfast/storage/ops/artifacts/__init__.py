"""Artifacts of jobs, and the blobs that hold their bytes."""
