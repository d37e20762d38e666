"""Runs Django's own tests of its tasks framework against Holdfast's backend."""
