"""The allowed host names. A foreign name that resolves to this machine must not reach the site."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.types import Scope

from ...rules.hosts import host_name
from ..wire.failures import Refused

MOST_HEADER_BYTES: Final = 16 * 1024


def check_host(given: str, allowed: Sequence[str]) -> None:
    """Reject a request for an unknown host: another site may have pointed its name here (DNS rebinding)."""
    name = host_name(given)
    if not any(_fits(name, pattern.lower()) for pattern in allowed):
        raise Refused(421, "misdirected", f"unknown host {name!r}; if it is this site's, add it to its hosts")


def check_size(scope: Scope) -> None:
    """Reject a request whose line and headers are too large: servers limit only what comes in several pieces."""
    size = len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"])
    size += sum(len(name) + len(value) + 4 for name, value in scope["headers"])
    if size > MOST_HEADER_BYTES:
        raise Refused(
            431, "headers_too_large", f"the headers take {size:,} bytes; at most {MOST_HEADER_BYTES:,} are read"
        )


def _fits(name: str, pattern: str) -> bool:
    if pattern == "*":
        return True
    return name.endswith(pattern[1:]) and len(name) > len(pattern) - 1 if pattern.startswith("*.") else name == pattern
