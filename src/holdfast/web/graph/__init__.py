"""Layered graph drawing, from left to right: layers, order and positions. Independent of flows."""
