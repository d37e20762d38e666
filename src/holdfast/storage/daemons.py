"""Daemon threads of a store, started when they are first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..errors import StorageUnavailable


def start_daemon(name: str, target: Callable[..., Any], *args: Any) -> threading.Thread:
    """Start a daemon. Record it only after this has returned: the system may refuse a new thread."""
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        raise StorageUnavailable(
            "the system gave no thread: this process, its user or its container has as many as it may;"
            " raise the limit, or repeat the call later"
        ) from error
    return thread
