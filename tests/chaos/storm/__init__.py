"""Chaos with real processes: killed, frozen, cut off; and what the store and the ledger say afterwards."""
