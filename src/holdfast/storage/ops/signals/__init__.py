"""Signals, waitpoints, and suspended jobs."""
