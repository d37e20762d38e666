"""Values inside other shapes: instants, durations, stored JSON."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from ..clock import SECOND
from ..model.values import in_brief, is_reference
from ..names import MAX_INSTANT, MIN_INSTANT

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
"""Described as RFC 3339 in the document."""
Withheld = Annotated[Any, msgspec.Meta(description="Any JSON; null where the caller may not see payloads.")]


def instant_of(micros: int | None) -> datetime | None:
    """A stored instant as a datetime in UTC."""
    if micros is None:
        return None
    # A long delay may lead beyond what a datetime can say.
    micros = max(MIN_INSTANT, min(micros, MAX_INSTANT))
    return datetime.fromtimestamp(micros // SECOND, UTC).replace(microsecond=micros % SECOND)


def seconds_of(micros: int | None) -> float | None:
    """A stored duration in seconds."""
    return None if micros is None else micros / SECOND


def decoded(text: str | None) -> Any:
    """Stored JSON as a value; what is not JSON stays text, so that a corrupt row can still be looked at.

    Of a large value that was left in its blob, a text says how large it is.
    """
    if text is None:
        return None
    if is_reference(text):
        return in_brief(text)
    try:
        return json.loads(text)
    except ValueError:
        return str(text)
