"""Under which names the site may be called. A foreign name that resolves to this machine must not reach it."""

from __future__ import annotations

from collections.abc import Sequence

from ..wire.failures import Refused


def check_host(given: str, allowed: Sequence[str]) -> None:
    """Refuse a request for a host that is not ours: a page of another site may have had its name point here."""
    name = host_name(given)
    if not any(_fits(name, pattern.lower()) for pattern in allowed):
        raise Refused(421, "misdirected", f"this site is not called {name!r}; add that to its hosts if it is")


def host_name(given: str) -> str:
    """A Host header without its port, in lower case."""
    text = given.strip().lower()
    if text.startswith("["):
        return text.partition("]")[0] + "]"
    return text.partition(":")[0].removesuffix(".")


def _fits(name: str, pattern: str) -> bool:
    if pattern == "*":
        return True
    return name.endswith(pattern[1:]) and len(name) > len(pattern) - 1 if pattern.startswith("*.") else name == pattern
