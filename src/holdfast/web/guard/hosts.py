"""The allowed host names. A foreign name that resolves to this machine must not reach the site."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ..wire.failures import Refused

_NAME_AND_PORT: Final = re.compile(r"(\[[^\[\]]*\]|[^:]*)(?::[0-9]{0,5})?")


def check_host(given: str, allowed: Sequence[str]) -> None:
    """Reject a request for an unknown host: another site may have pointed its name here (DNS rebinding)."""
    name = host_name(given)
    if not any(_fits(name, pattern.lower()) for pattern in allowed):
        raise Refused(421, "misdirected", f"unknown host {name!r}; if it is this site's, add it to its hosts")


def host_name(given: str) -> str:
    """Return a Host header without its port, in lower case; unchanged if it is not a name and a port."""
    text = given.strip().lower()
    match = _NAME_AND_PORT.fullmatch(text)
    return match[1].removesuffix(".") if match else text


def _fits(name: str, pattern: str) -> bool:
    if pattern == "*":
        return True
    return name.endswith(pattern[1:]) and len(name) > len(pattern) - 1 if pattern.startswith("*.") else name == pattern
