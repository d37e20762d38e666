"""Makes the durable calls of a run, in the colour of its task."""

from __future__ import annotations

from typing import Any, Final

from ..tasks.context import Context, JobInfo, Stop, SyncContext
from .calls import Durable
from .step_io import AwaitingHands, BlockingHands

_CONTEXTS: Final = (Context, SyncContext)


def awaiting(info: JobInfo, app: Any, stop: Stop, scope: str = "") -> Durable:
    return Durable(info, app, stop, AwaitingHands(app, stop), _CONTEXTS, scope)


def blocking(info: JobInfo, app: Any, stop: Stop, scope: str = "") -> Durable:
    return Durable(info, app, stop, BlockingHands(app, stop), _CONTEXTS, scope)
