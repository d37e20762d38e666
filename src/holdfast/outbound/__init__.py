"""Requests to other systems over HTTP, which go nowhere but where anybody could send them."""

from .policy import Policy

__all__ = ["Policy"]
