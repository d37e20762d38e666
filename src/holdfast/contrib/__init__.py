"""Bridges to other programs' worlds. Each module needs what its extra installs, and nothing is imported unasked."""
