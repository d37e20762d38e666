"""Flows: jobs of which some wait for others, made and stored as one."""
