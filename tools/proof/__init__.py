"""Tries to break every promise, suite by suite, and ends in a table of what was tried and what broke."""
