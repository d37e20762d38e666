"""The worker of a project: the options of `holdfast worker`, and --reload, which restarts it when a file changes."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click
from django.utils import autoreload

from ...cli import worker as of_any_app
from ...cli.command import Command
from ...cli.logs import set_up_logs
from ...errors import ConfigError
from .command_line import APP
from .project import shared_app

_log: Final = logging.getLogger("holdfast.worker")

_GRACE: Final = 2.0
"""Seconds for running jobs to finish before a restart, unless --grace is given. The rest run again afterwards."""
_ITS_APP: Final = ("where", "app_name", "store")
"""Parameters that name the app, which is the project's."""
_CHANGED: Final = 3
"""The exit code of a child that ended because a file has changed."""
_CHECK: Final = 1.0
"""Seconds between two checks for changed files."""
_NOT_RELOADED: Final = {"processes": 1, "metrics_port": None}


def _work(*, reload: bool, **options: Any) -> None:
    if reload:
        _work_reloaded(options)
    else:
        assert of_any_app.worker.callback is not None
        of_any_app.worker.callback(where=None, app_name=APP, store=None, **options)


worker: Final = Command(
    "holdfast_worker",
    callback=_work,
    params=[
        *(param for param in of_any_app.worker.params if param.name not in _ITS_APP),
        click.Option(["--reload"], is_flag=True, help="Restart when a file changes. For development."),
    ],
    help=(of_any_app.worker.help or "").replace("jobs of MODULE:APP", "the project's jobs"),
)


def _work_reloaded(options: dict[str, Any]) -> None:
    for name, usual in _NOT_RELOADED.items():
        if options.pop(name) != usual:
            raise ConfigError(f"--{name.replace('_', '-')} does not work with --reload; leave one of them out")
    set_up_logs(options.pop("log_format"), options.pop("log_level"))
    del options["debug"]
    options["grace"] = _GRACE if options["grace"] is None else options["grace"]
    if os.environ.get(autoreload.DJANGO_AUTORELOAD_ENV) != "true":
        _keep_restarting()
        return
    leave, left = threading.Event(), threading.Event()
    try:
        autoreload.run_with_reloader(_worker_until(leave, left, options))
    finally:
        # A changed file ends the child from its main thread. The worker stops first, and releases its jobs.
        leave.set()
        left.wait(options["grace"] + 10)


def _worker_until(leave: threading.Event, left: threading.Event, options: dict[str, Any]) -> Callable[[], None]:
    def work() -> None:
        try:
            with shared_app().worker(**options):
                leave.wait()
        finally:
            left.set()

    return work


def _keep_restarting() -> None:
    """Run this program again as a child that has the worker, and again when a file has changed.

    Unlike that of `run_with_reloader`, a child that cannot start ends nothing: the error can be fixed in a file.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    environment = {**os.environ, autoreload.DJANGO_AUTORELOAD_ENV: "true"}
    with suppress(KeyboardInterrupt):
        while True:
            before = _modified()
            code = subprocess.run(autoreload.get_child_arguments(), env=environment, close_fds=False).returncode  # noqa: S603
            if code == 0:
                return
            if code != _CHANGED:
                _log.error("the worker ended with exit code %s; it starts again when a file changes", code)
                while _modified() == before:
                    time.sleep(_CHECK)


def _modified() -> dict[Path, float]:
    """Return when each file was modified that is beside the modules of this process, also of new ones."""
    found = dict[Path, float]()
    for folder in {path.parent for path in autoreload.iter_all_python_module_files()}:
        for path in folder.glob("*.py"):
            with suppress(FileNotFoundError):  # editors replace a file
                found[path] = path.stat().st_mtime
    return found
