"""Results of actions."""

from __future__ import annotations

import msgspec


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an action; `changed` is false where nothing had to change."""

    changed: bool
