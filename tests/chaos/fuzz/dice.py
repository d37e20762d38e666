"""Seeded generators: texts that break careless code, values of every shape, and tokens that were tampered with."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

from tests.chaos.dials import SEED

TEXTS = (
    "", " ", "a b", "'", '"', "a'b", "a''b", "'; drop table holdfast_job; --", "\\", "\\'", "%", "_", "a%b_c", "*",
    "\x00", "a\x00b", "\x1b[31m", "\n", "a\nb", "\r\n", "\t", "\x7f", "\x85", "\u2028", "\u2029",
    "\u202e", "a\u202eb", "\u2066", "\u200f", "\u061c", "\u200b", "a\u200bb", "\ufeff", "\u00ad", "\u2060",
    "\U0001f600", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0010ffff", "a\U0010ffffb", "\ufffe", "\ufffd",
    "\ue000",
    "e\u0301", "\u00e9", "a" + "\u0301" * 40, "\u212b", "\u00c5", "\ufb01", "ß", "İ", "ı", "\u1680", "\u3000", "\u00a0",
    "\ud800", "\udfff", "a\udc80b", "\ud83d", "a,b", ",", "a/b", "../x", "..", ".", "a:b", "task:x", "worker:x", "=",
    "-",
    "--all", "${HOME}", "{{7*7}}", "<b>", "&amp;", "null", "None", "true", "0", "-1", "NaN", "1e9", "\u0660\u0661",
    "x" * 64, "x" * 65, "x" * 128, "x" * 129, "x" * 10_000, "é" * 64, "é" * 65, "\U0001f600" * 32, "\U0001f600" * 33,
)  # fmt: skip
"""Names that somebody may try."""
_ALPHABETS = (
    "ab",
    "abc.-_",
    " \t\n",
    "'\"%_\\",
    "\x00\x01\x7f\u202e\u200b",
    "äßé\u0301\u212b",
    "\U0001f600\U0010ffff\ue000",
)


def dice(purpose: str) -> random.Random:
    """The dice of one test: the same each time, others for each test."""
    return random.Random(f"{SEED}:{purpose}")


def text(rng: random.Random, longest: int = 12) -> str:
    """A text of every kind but halves of surrogate pairs."""
    kind = rng.random()
    if kind < 0.3:
        return "".join(rng.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=rng.randint(0, longest)))
    if kind < 0.7:
        return "".join(rng.choice(rng.choice(_ALPHABETS)) for _ in range(rng.randint(0, longest)))
    return "".join(chr(_point(rng)) for _ in range(rng.randint(0, longest)))


def number(rng: random.Random) -> int | float:
    """Small and large, whole and not, around every power of two that somebody may have forgotten."""
    kind = rng.random()
    if kind < 0.3:
        return rng.randint(-10, 10)
    if kind < 0.5:
        return rng.choice((-1, 1)) * (2 ** rng.choice((7, 15, 31, 53, 62, 63, 64, 200, 4_000)) + rng.randint(-2, 2))
    if kind < 0.6:
        return rng.choice((0.0, -0.0, 5e-324, 1.7976931348623157e308, 2.0**53, 0.1, 1e16, 1e22, 123456789.123))
    found = math.ldexp(rng.uniform(-1, 1), rng.randint(-1074, 1023))
    return found if math.isfinite(found) else 1.5


def value(rng: random.Random, depth: int = 0) -> Any:
    """What JSON can say, as Python has it."""
    kind = rng.random() * (1.0 if depth < 5 else 0.6)
    if kind < 0.1:
        return rng.choice((None, True, False))
    if kind < 0.3:
        return number(rng)
    if kind < 0.6:
        return text(rng)
    if kind < 0.8:
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 4))]
    return {text(rng, 6): value(rng, depth + 1) for _ in range(rng.randint(0, 4))}


def tampered(rng: random.Random, token: str, others: tuple[str, ...] = ()) -> Iterator[str]:
    """Versions of a token that are not the token: one of each kind of tampering."""
    at = rng.randrange(len(token))
    flipped = chr(ord(token[at]) ^ (1 << rng.randrange(7)))
    yield token[:at] + flipped + token[at + 1 :]
    yield token[:at] + rng.choice("AQgwaz09-_.=+/ \n\x00é\u212a\U0001f600\ud800") + token[at + 1 :]
    yield token[:at]
    yield token[:at] + token[at + 1 :]
    yield token[:at] + token[at] + token[at:]
    yield token + rng.choice(("=", "==", ".", "A", " ", "\n", "\x00", "\u200b", "AA", token))
    yield rng.choice((" ", "\n", "\ufeff", "=", "v2.")) + token
    yield token.swapcase()
    yield token[::-1]
    yield _repadded(rng, token)
    yield "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in token)
    for other in others:
        yield _spliced(rng, token, other)


def _spliced(rng: random.Random, token: str, other: str) -> str:
    """Parts of one and parts of another."""
    mine, theirs = token.split("."), other.split(".")
    if len(mine) == len(theirs) and len(mine) > 1:
        return ".".join(rng.choice(pair) for pair in zip(mine, theirs, strict=True))
    at = rng.randrange(1, min(len(token), len(other)))
    return token[:at] + other[at:]


def _repadded(rng: random.Random, token: str) -> str:
    """Another spelling of the same bytes: other trailing bits, the other alphabet, or padding."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    parts = token.split(".")
    at = rng.randrange(len(parts))
    part = parts[at]
    if part and part[-1] in letters and rng.random() < 0.7:
        part = part[:-1] + letters[letters.index(part[-1]) ^ rng.randint(1, 3)]
    else:
        part = part.replace("-", "+").replace("_", "/") + "=" * (-len(part) % 4)
    return ".".join((*parts[:at], part, *parts[at + 1 :]))


def _point(rng: random.Random) -> int:
    found = rng.choice((rng.randrange(0x250), rng.randrange(0x10000), rng.randrange(0x110000)))
    return found if not 0xD800 <= found < 0xE000 else 0x1F600
