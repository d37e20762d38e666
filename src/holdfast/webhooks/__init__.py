"""Webhooks that others send: verified by Standard Webhooks, and turned into a job or a signal exactly once."""

from .message import Message, verify
from .receiver import Receiver, receiver

__all__ = ["Message", "Receiver", "receiver", "verify"]
