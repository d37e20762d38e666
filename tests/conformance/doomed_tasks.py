"""Tasks that end badly, in a module that a child process can import."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from holdfast import App
from holdfast.rules.retry import RetryPolicy

app = App(":memory:")


class Panic(BaseException):
    """Not even an Exception."""


@app.task(max_attempts=1)
async def panics() -> None:
    raise Panic("everything is on fire")


@app.task(max_attempts=1)
def leaves() -> None:
    raise SystemExit(3)


@app.task(isolate="process", max_attempts=1)
def runs_for_ever(note: str) -> None:
    path = Path(note)
    path.with_suffix(".new").write_text(str(os.getpid()))
    path.with_suffix(".new").rename(path)
    threading.Event().wait()


@app.task(retry=RetryPolicy(kind="none", max_age=60))
def known_elsewhere() -> None: ...
