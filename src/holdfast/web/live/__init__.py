"""Live pages, at a cost that does not grow with the number of viewers."""
