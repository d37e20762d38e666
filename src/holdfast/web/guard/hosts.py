"""The allowed host names. A foreign name that resolves to this machine must not reach the site."""

from __future__ import annotations

from collections.abc import Sequence

from ...rules.addresses import host_name
from ..wire.failures import Refused


def check_host(given: str, allowed: Sequence[str]) -> None:
    """Reject a request for an unknown host: another site may have pointed its name here (DNS rebinding)."""
    name = host_name(given)
    if not any(_fits(name, pattern.lower()) for pattern in allowed):
        raise Refused(421, "misdirected", f"unknown host {name!r}; if it is this site's, add it to its hosts")


def _fits(name: str, pattern: str) -> bool:
    if pattern == "*":
        return True
    return name.endswith(pattern[1:]) and len(name) > len(pattern) - 1 if pattern.startswith("*.") else name == pattern
