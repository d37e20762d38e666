"""What actions answer."""

from __future__ import annotations

import msgspec


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """Whether this changed something; false where it was so already."""

    changed: bool
