"""HTTP requests to other systems. By default they can only reach public addresses."""

from .policy import Policy

__all__ = ["Policy"]
