"""Frozen data: what the layers hand to each other. No behaviour beyond construction."""
