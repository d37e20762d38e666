"""Outbox entries, and what operators do to outboxes."""
