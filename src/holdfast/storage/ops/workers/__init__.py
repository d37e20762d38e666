"""Workers, their leases, leadership and health, and what an idle one polls for."""
