"""Budgets: accounts, spending, reservations, and jobs that wait for an amount."""
