"""What the tests of the command line share: how a command is run, and what it answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from click.testing import Result

from holdfast import App

Run = Callable[..., Result]


def answer(result: Result, code: int = 0) -> Any:
    assert result.exit_code == code, result.output
    return json.loads(result.output)


def fill(app: App, n: int = 3, **options: Any) -> list[str]:
    return [job.id for job in app.enqueue_many([app.tasks["mail"].options(**options).job() for _ in range(n)])]
