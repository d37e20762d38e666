"""Running claimed jobs: slots, handlers, deadlines, and the outcome of each run."""
