"""Pages that follow what happens, at a cost that does not grow with the number of those who look."""
