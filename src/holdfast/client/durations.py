"""Durations as people write them: seconds, or a number with a unit."""

from __future__ import annotations

from ..rules.durations import seconds_of as seconds_of
