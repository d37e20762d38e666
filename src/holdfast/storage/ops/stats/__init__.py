"""Statistics: current counts, minutes, and errors by kind."""
