"""Rate limits per caller. Memory is bounded: the least recently seen key is forgotten first."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from typing import Final

from starlette.requests import HTTPConnection

from ...clock import SYSTEM_CLOCK

_MOST: Final = 10_000


def caller_of(connection: HTTPConnection) -> str:
    """Return the key of an anonymous caller: its address, or its /64 network for IPv6."""
    host = connection.client.host if connection.client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address), 64), strict=False))


class Throttle:
    """A token bucket per key: a burst, and a rate per second."""

    def __init__(self, burst: float, per_second: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, key: str) -> float:
        """Return 0 if the request may continue, else the seconds to wait."""
        left, now = self._now_left(key)
        self._left.pop(key, None)
        self._left[key] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > _MOST:
            self._left.popitem(last=False)
        return self._wait(left)

    def ask(self, key: str) -> float:
        """Return what `take` would, and take nothing."""
        return self._wait(self._now_left(key)[0])

    def give_back(self, key: str) -> None:
        """Return a token to the bucket, after a valid attempt."""
        left, since = self._left.get(key, (self._burst, SYSTEM_CLOCK.monotonic()))
        self._left[key] = (min(self._burst, left + 1), since)

    def _now_left(self, key: str) -> tuple[float, float]:
        now = SYSTEM_CLOCK.monotonic()
        left, since = self._left.get(key, (self._burst, now))
        return min(self._burst, left + (now - since) * self._per_second), now

    def _wait(self, left: float) -> float:
        return 0.0 if left >= 1 else (1 - left) / self._per_second
