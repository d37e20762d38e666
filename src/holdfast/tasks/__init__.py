"""Tasks: the decorated functions, their options and signatures, and the context of a run."""
