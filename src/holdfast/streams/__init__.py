"""Writing to a running job's stream: frames are gathered for a moment, then appended in batches."""
