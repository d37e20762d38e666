"""Webhooks that others send: verified by Standard Webhooks, and turned into a job or a signal exactly once."""

from .message import Message, sign, verify
from .receiving import Receiver, receiver

__all__ = ["Message", "Receiver", "receiver", "sign", "verify"]
