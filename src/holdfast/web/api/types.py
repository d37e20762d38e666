"""Types shared by several operations: they validate requests and appear in the API document."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

_VISIBLE: Final = r"^[^\x00-\x1f\x7f]+$"
_TEXT: Final = r"^[^\x00]*$"
LONGEST: Final = 10 * 365 * 86_400.0

Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=128, pattern=_VISIBLE)]
"""A name or an id."""
QueueName: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=128, pattern=r"^[^\x00-\x20\x7f,]+$")]
Reason: TypeAlias = Annotated[
    str, msgspec.Meta(max_length=500, pattern=_TEXT, description="Reason; kept in the audit log.")
]
Cursor: TypeAlias = Annotated[
    str, msgspec.Meta(min_length=1, max_length=2048, pattern=r"^[A-Za-z0-9_-]+$", description="The `next` of a page.")
]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=LONGEST)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
PageSize: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1_000)]


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an action; `changed` is false where nothing had to change."""

    changed: bool


ResultKey: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        min_length=1, max_length=256, pattern=r"^[A-Za-z0-9._-]+$", description="As returned by the enqueue call."
    ),
]


class Waiting(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The time to wait."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=60, description="Seconds to wait for it to finish.")] = 0.0


class Acting(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An action without other parameters."""

    reason: Reason = ""


class ReasonQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The same as a query, for requests without a body."""

    reason: Reason = ""


class Listing(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The position in a list."""

    limit: PageSize = 100
    after: Cursor | None = None
