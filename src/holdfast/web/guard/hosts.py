"""Under which names the site may be called. A foreign name that resolves to this machine must not reach it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ..wire.failures import Refused

_NAME_AND_PORT: Final = re.compile(r"(\[[^\[\]]*\]|[^:]*)(?::[0-9]{0,5})?")


def check_host(given: str, allowed: Sequence[str]) -> None:
    """Refuse a request for a host that is not ours: a page of another site may have had its name point here."""
    name = host_name(given)
    if not any(_fits(name, pattern.lower()) for pattern in allowed):
        raise Refused(421, "misdirected", f"this site is not called {name!r}; add that to its hosts if it is")


def host_name(given: str) -> str:
    """A Host header without its port, in lower case; as it is where it is not a name and a port."""
    text = given.strip().lower()
    match = _NAME_AND_PORT.fullmatch(text)
    return match[1].removesuffix(".") if match else text


def _fits(name: str, pattern: str) -> bool:
    if pattern == "*":
        return True
    return name.endswith(pattern[1:]) and len(name) > len(pattern) - 1 if pattern.startswith("*.") else name == pattern
