"""Holdfast beside other job queues in one run: environments, trials, kill tests, and the table."""
