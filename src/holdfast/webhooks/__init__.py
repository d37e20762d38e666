"""Receiving webhooks: verified by Standard Webhooks, and turned into a job or a signal exactly once.

Also the types that `app.webhooks` returns for webhooks that are sent: endpoints, deliveries and their attempts.
"""

from ..model.webhooks import Delivery, DeliveryWhole, Endpoint, NewEndpoint, Try
from .message import Message, sign, verify
from .receiving import Receiver, receiver

__all__ = [
    "Delivery", "DeliveryWhole", "Endpoint", "Message", "NewEndpoint", "Receiver", "Try", "receiver", "sign", "verify",
]  # fmt: skip
