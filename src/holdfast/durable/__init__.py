"""Durable calls of a running job: recorded once in its journal, answered from there when the job runs again."""
