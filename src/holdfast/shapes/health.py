"""The health of the whole, with reasons."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from .values import Instant

Status: TypeAlias = Literal["ok", "degraded", "down"]


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not well. `code` stays as it is over versions; `message` is for people."""

    code: str
    message: str


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The health of the whole, and the problems found."""

    status: Status
    reasons: list[Trouble]
    checked_at: Instant
    last_delivery: Instant | None = None
    """When an outbox entry or a webhook was last delivered, where one ever was."""
    last_poll: Instant | None = None
    """When an inventory last answered this process; of several, the one that answered longest ago."""


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """The process answers."""

    status: Literal["ok"] = "ok"
