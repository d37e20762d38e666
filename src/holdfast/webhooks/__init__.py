"""Webhooks that others send: verified by Standard Webhooks, and turned into a job or a signal exactly once.

Also what `app.webhooks` answers with about those that are sent from here: endpoints, deliveries and their tries.
"""

from ..model.webhooks import Delivery, Endpoint, Sending
from .message import Message, sign, verify
from .receiving import Receiver, receiver

__all__ = ["Delivery", "Endpoint", "Message", "Receiver", "Sending", "receiver", "sign", "verify"]
