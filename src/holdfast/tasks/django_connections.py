"""Closes the database connections that Django keeps per thread, as Django itself does around each request.

A connection that its server has closed, or that is older than CONN_MAX_AGE, would otherwise fail every later job of its
thread. Costs one lookup in `sys.modules` where Django is not used.
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
"""If this module is not loaded, there is nothing to close."""


def close_stale_connections() -> None:
    """Close this thread's broken or expired connections. Call it before and after each run."""
    if DJANGO in _MODULES and (close := _closer("close_old_connections")) is not None:
        _attempt(close)


def close_stale_async_connections() -> None:
    """Close the stale connections of async code, which `sync_to_async` runs on one thread. Does not wait.

    That thread runs its calls in order, so this call runs before those of a handler that starts now.
    """
    if DJANGO not in _MODULES:
        return
    if (close := _closer("close_old_connections")) is None or (asgiref := _MODULES.get("asgiref.sync")) is None:
        return
    executor = getattr(asgiref.SyncToAsync, "single_thread_executor", None)
    if executor is not None:
        # RuntimeError: the interpreter is exiting, and closes the connections.
        with suppress(RuntimeError):
            executor.submit(_attempt, close)


def close_all_connections() -> None:
    """Close all connections of this thread, which is about to end."""
    if DJANGO in _MODULES and (connections := _closer("connections")) is not None:
        _attempt(connections.close_all)


def _closer(name: str) -> Any:
    """Return that attribute of `django.db`; None if Django is not configured, or still being imported."""
    return getattr(_MODULES[DJANGO], name, None) if _MODULES["django.conf"].settings.configured else None


def _attempt(close: Callable[[], object]) -> None:
    try:
        close()
    except Exception as error:
        # The next job that uses the connection reports what is wrong with it.
        logger.debug("a connection of Django could not be closed: %s", error, exc_info=True)
