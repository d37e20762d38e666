"""The worker of a project, with the options of `holdfast worker`."""

from __future__ import annotations

from typing import Any, Final

from ...cli import worker as of_any_app
from ...cli.command import Command
from .command_line import APP

_ITS_APP: Final = ("where", "app_name", "store")
"""Parameters that name the app, which is the project's."""


def _work(**options: Any) -> None:
    assert of_any_app.worker.callback is not None
    of_any_app.worker.callback(where=None, app_name=APP, store=None, **options)


worker: Final = Command(
    "holdfast_worker",
    callback=_work,
    params=[param for param in of_any_app.worker.params if param.name not in _ITS_APP],
    help=(of_any_app.worker.help or "").replace("jobs of MODULE:APP", "the project's jobs"),
)
