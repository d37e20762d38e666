"""How what a running job says gets to its stream: gathered for a moment, then appended in batches."""
