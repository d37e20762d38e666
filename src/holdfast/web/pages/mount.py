"""The prefix under which the site is mounted."""

from __future__ import annotations

from typing import Final

from starlette.types import Scope

MOUNT: Final = "holdfast.mount"


def mount_of(scope: Scope) -> str:
    """Return the prefix, such as "/jobs"; "" at the root."""
    return str(scope.get(MOUNT, scope.get("root_path", ""))).rstrip("/")
