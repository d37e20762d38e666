"""How long tests wait for what should happen at once."""

from __future__ import annotations

from typing import Final

SOON: Final = 30.0
"""Seconds, on a machine that may stand still for ten of them. Whatever a test means to tell from `at once` (a poll, a
beat, the end of a lease or a grace) must take much longer than this."""
