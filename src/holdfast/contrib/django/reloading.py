"""A worker that is restarted when a file of the project changes. For development."""

from __future__ import annotations

import os
import threading
from typing import Any, Final

from django.core.management.base import CommandError
from django.utils import autoreload

from ...cli.logs import set_up_logs
from ...cli.worker import worker
from .project import shared_app

RELOAD: Final = "--reload"
_GRACE: Final = 2.0
"""Seconds for running jobs to finish, unless --grace says otherwise. The rest are released without using an attempt."""
_NOT_HERE: Final = {"processes": 1, "metrics_port": None, "store": None}


def run_reloaded(program: str, args: list[str]) -> int:
    """Run a worker in a child process that Django's reloader restarts; return the exit code."""
    with worker.make_context(program, args) as context:
        options: dict[str, Any] = dict(context.params)
    for name, usual in _NOT_HERE.items():
        if options.pop(name) != usual:
            raise CommandError(f"--{name.replace('_', '-')} does not work with --reload; leave one of them out")
    set_up_logs(options.pop("log_format"), options.pop("log_level"))
    for name in ("where", "app_name", "debug"):
        options.pop(name)
    options["grace"] = _GRACE if options["grace"] is None else options["grace"]
    if os.environ.get(autoreload.DJANGO_AUTORELOAD_ENV) != "true":
        return _watch(lambda: None)
    leave, left = threading.Event(), threading.Event()

    def work() -> None:
        try:
            with shared_app().worker(**options):
                leave.wait()
        finally:
            left.set()

    try:
        return _watch(work)
    finally:
        # A changed file ends this process from its main thread; the worker stops first, on its own.
        leave.set()
        left.wait(options["grace"] + 10)


def _watch(work: Any) -> int:
    try:
        autoreload.run_with_reloader(work)
    except SystemExit as ended:
        if os.environ.get(autoreload.DJANGO_AUTORELOAD_ENV) == "true":
            raise
        return ended.code if isinstance(ended.code, int) else 0
    return 0
