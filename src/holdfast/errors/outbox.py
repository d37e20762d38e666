"""What an outbox does not take, and what a destination's function may not answer."""

from __future__ import annotations

from .root import Conflict, InvalidInput


class OutboxFull(Conflict):
    """The outbox is at its cap, and nothing in it has been delivered or abandoned that could make room."""

    code = "outbox_full"
    retryable = True

    def __init__(self, name: str, cap: int) -> None:
        self.name = name
        self.cap = cap
        super().__init__(f"outbox {name!r} has {cap:,} undelivered entries, its cap; look why they are not delivered")


class WrongAnswer(InvalidInput):
    """A destination's function answered something that cannot be understood. Nothing counts as delivered."""

    code = "wrong_answer"
