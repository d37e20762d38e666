"""Graphs drawn in layers, from left to right: which layer, which order, which place. It knows nothing of flows."""
