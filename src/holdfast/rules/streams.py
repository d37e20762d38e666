"""Bounds of streams, the numbering of frames, and changes of a summary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ..clock import SECOND
from ..errors import InvalidInput
from ..model.streams import MAX_FRAMES, MAX_STREAM_BYTES

NULL: Final = "__holdfast_null__"
"""In a patch this stores a real null; null itself removes the key."""

LEAST_KEPT: Final = 64
MOST_KEPT: Final = 16_384
MOST_KEPT_BYTES: Final = 32 * 1024 * 1024
KEPT_SECONDS: Final = 30
"""Best-effort frames are kept for about this long to twice as long, whatever their rate."""
_ALPHA: Final = 0.2
# A batch right after another says nothing about the rate over longer times.
_SHORTEST: Final = 1_000


def measure(rate: float, frames: int, elapsed: int | None) -> float:
    """Return the moving average of frames per second after this batch. The first batch counts as one second's."""
    if elapsed is None:
        return float(frames)
    now = frames * SECOND / max(elapsed, _SHORTEST)
    return _ALPHA * now + (1 - _ALPHA) * rate


def kept(rate: float, seconds: float = KEPT_SECONDS, *, size: int = 1) -> int:
    """Return the number of newest best-effort frames to keep, if they have `size` bytes on average."""
    most = min(MOST_KEPT, MOST_KEPT_BYTES // max(size, 1))
    return max(LEAST_KEPT, min(most, 2 * math.ceil(min(rate * seconds, MOST_KEPT))))


def fitting(head: int, stored: int, sizes: Sequence[int]) -> int:
    """Return the number of frames of those sizes that still fit after `head` frames of `stored` bytes."""
    count = 0
    for size in sizes:
        head, stored = head + 1, stored + size
        if head > MAX_FRAMES or stored > MAX_STREAM_BYTES:
            break
        count += 1
    return count


def merged(document: Mapping[str, Any], patch: object) -> dict[str, Any]:
    """Return a document after a merge patch (RFC 7396): null removes, objects merge, all else replaces."""
    if not isinstance(patch, Mapping):
        raise InvalidInput(f"a summary is changed by an object, not by {type(patch).__name__}")
    return _merge(document, patch)


def _merge(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            before = result.get(key)
            result[key] = _merge(before if isinstance(before, Mapping) else {}, value)
        else:
            result[key] = _real(value)
    return result


def _real(value: Any) -> Any:
    """Return a value with real nulls for the sentinel, at any depth of lists."""
    if isinstance(value, str):
        return None if value == NULL else value
    if isinstance(value, list):
        return [_real(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _real(item) for key, item in value.items()}
    return value
