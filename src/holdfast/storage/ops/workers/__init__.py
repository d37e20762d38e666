"""Workers, their leases, leadership and health, and remote workers."""
