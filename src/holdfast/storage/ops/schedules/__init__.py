"""Schedules, and the jobs that their ticks enqueue."""
