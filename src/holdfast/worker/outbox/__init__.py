"""Delivering outbox events in batches."""
