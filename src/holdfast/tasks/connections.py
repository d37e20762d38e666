"""Closes the database connections that Django keeps per thread, as Django itself does around each request.

A connection that its server has closed, or that is older than CONN_MAX_AGE, would otherwise fail every later job of its
thread. Costs one look into `sys.modules` where Django is not used.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

logger: Final = logging.getLogger("holdfast.worker")

_MODULES: Final = sys.modules
DJANGO: Final = "django.db"
"""Where this module is not loaded, there is nothing to close."""


def close_stale_connections() -> None:
    """Close those of this thread that are broken or too old. Call it before and after each run."""
    if DJANGO in _MODULES and (close := _closer("close_old_connections")) is not None:
        _attempt(close)


def close_stale_async_connections() -> None:
    """Close those that async code uses: `sync_to_async` runs it on one thread. Does not wait.

    That thread runs its calls in order, so this one comes before those of a handler that starts now.
    """
    if DJANGO not in _MODULES:
        return
    if (close := _closer("close_old_connections")) is None or (asgiref := _MODULES.get("asgiref.sync")) is None:
        return
    executor = getattr(asgiref.SyncToAsync, "single_thread_executor", None)
    if executor is not None:
        # A RuntimeError says that the interpreter is ending, and the connections with it.
        with suppress(RuntimeError):
            executor.submit(_attempt, close)


def close_all_connections() -> None:
    """Close those of this thread, which ends now."""
    if DJANGO in _MODULES and (connections := _closer("connections")) is not None:
        _attempt(connections.close_all)


def _closer(name: str) -> Any:
    """That of `django.db`; None where Django is not configured, or another thread is still importing it."""
    return getattr(_MODULES[DJANGO], name, None) if _MODULES["django.conf"].settings.configured else None


def _attempt(close: Callable[[], object]) -> None:
    try:
        close()
    except Exception as error:
        # What is wrong with the connection, the next job that uses it will say.
        logger.debug("a connection of Django could not be closed: %s", error, exc_info=True)
