"""Errors of outboxes and their destinations."""

from __future__ import annotations

from .root import Conflict, InvalidInput


class OutboxFull(Conflict):
    """The outbox is at its cap, and holds no delivered or abandoned entry that could be removed."""

    code = "outbox_full"
    retryable = True

    def __init__(self, name: str, cap: int) -> None:
        self.name = name
        self.cap = cap
        super().__init__(f"outbox {name!r} has {cap:,} undelivered entries, its cap; look why they are not delivered")


class WrongAnswer(InvalidInput):
    """A destination's function returned an invalid value. Nothing counts as delivered."""

    code = "wrong_answer"
