"""Make the durable calls of a run, for an `async def` or a `def` task."""

from __future__ import annotations

from typing import Any, Final

from ..tasks.context import Context, JobInfo, Stop, SyncContext
from .calls import Durable
from .step_io import AsyncStepIO, BlockingStepIO

_CONTEXTS: Final = (Context, SyncContext)


def awaiting(info: JobInfo, app: Any, stop: Stop, scope: str = "") -> Durable:
    return Durable(info, app, stop, AsyncStepIO(app, stop), _CONTEXTS, scope)


def blocking(info: JobInfo, app: Any, stop: Stop, scope: str = "") -> Durable:
    return Durable(info, app, stop, BlockingStepIO(app, stop), _CONTEXTS, scope)
