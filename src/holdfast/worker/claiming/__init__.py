"""Claiming jobs: when to ask the store, for which routes, and for how many."""
