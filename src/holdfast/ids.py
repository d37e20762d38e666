"""Ids that sort by the time they were made: 48 bits of milliseconds and 80 random bits, in 26 letters and digits.

Within a process each id is greater than the one before, also inside one millisecond and when the clock steps back,
so jobs made in order sort in order.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import threading
import time
from collections.abc import Callable
from typing import Final

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_MADE: Final = re.compile(f"[0-7][{_ALPHABET}]{{25}}")
_PAIRS: Final = tuple(a + b for a in _ALPHABET for b in _ALPHABET)
_RANDOM_BITS: Final = 80
# Leaves half of the random range above the start, so that counting up never overflows into the time.
_START_BITS: Final = 79
_DRAWN: Final = 256


class IdMaker:
    """Makes ever greater ids. `new` is safe from any thread.

    `wall` returns nanoseconds, `entropy` a number of random bytes; a repeatable simulation passes its own.
    """

    def __init__(self) -> None:
        self.wall: Callable[[], int] = time.time_ns
        self.entropy: Callable[[int], bytes] = os.urandom
        self._lock = threading.Lock()
        self._millis = -1
        self._last = 0
        self._drawn: list[int] = []

    def new(self) -> str:
        return _text(self._first_of(1))

    def many(self, n: int) -> list[str]:
        """Return `n` ids in increasing order."""
        first = self._first_of(n)
        return [_text(value) for value in range(first, first + n)]

    def _first_of(self, n: int) -> int:
        millis = self.wall() // 1_000_000
        with self._lock:
            if millis > self._millis:
                self._millis, first = millis, millis << _RANDOM_BITS | (self._drawn or self._draw()).pop()
            else:
                first = self._last + 1
            self._last = first + n - 1
        return first

    def reseed(self) -> None:
        """Forget the last id, so that a forked child does not repeat its parent's."""
        self._lock = threading.Lock()
        self._millis = -1
        self._last = 0
        self._drawn = []

    def _draw(self) -> list[int]:
        """Draw random bits for many ids at a time: the system call lets another thread take the GIL."""
        data = self.entropy(10 * _DRAWN)
        self._drawn = [
            int.from_bytes(data[at : at + 10], "big") >> (_RANDOM_BITS - _START_BITS) for at in range(0, len(data), 10)
        ]
        return self._drawn


def first_id_of(micros: int) -> str:
    """Return an id that is not greater than any id made at that instant or later."""
    return _text(max(0, micros // 1000) << _RANDOM_BITS)


def derived_id(micros: int, seed: str, ordinal: int) -> str:
    """Return an id that depends only on its arguments. The ids of one seed sort by their ordinal."""
    digest = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:9], "big") >> 7
    return _text((max(0, micros // 1000) << _RANDOM_BITS) | (digest << 15) | ordinal)


def is_made_id(text: str) -> bool:
    """Return whether a text has the form of an id that was made here."""
    return _MADE.fullmatch(text) is not None


def made_at(id: str) -> int | None:
    """Return when an id was made, in microseconds to the millisecond; None for an id that was chosen."""
    if not is_made_id(id):
        return None
    millis = functools.reduce(lambda value, letter: value * 32 + _ALPHABET.index(letter), id[:10], 0)
    return millis * 1000


def token() -> str:
    """Return 128 random bits, for identities that must never repeat."""
    return ids.entropy(16).hex()


def _text(value: int) -> str:
    return _stem(value >> 20) + _PAIRS[(value >> 10) & 1023] + _PAIRS[value & 1023]


@functools.lru_cache(maxsize=16)
def _stem(value: int) -> str:
    """Return all but the last four letters, which ids of one millisecond share: 2 of the 3 µs that an id took."""
    text = ""
    for shift in range(100, -1, -10):
        text += _PAIRS[(value >> shift) & 1023]
    return text


ids: Final = IdMaker()
os.register_at_fork(after_in_child=ids.reseed)
