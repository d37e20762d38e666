"""Flows: the graph, its dependencies, and actions on it."""
