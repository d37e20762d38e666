"""Tasks of a module whose import takes as long as a test wants."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast import App

app = App(":memory:")

if gate := os.environ.get("HOLDFAST_TEST_GATE"):
    said, opened = map(Path, gate.split(":"))
    said.write_text("importing")
    opened.read_text()


@app.task(isolate="process")
def touches(effect: str) -> None:
    Path(effect).touch()


@app.task(isolate="process")
async def touches_async(effect: str) -> None:
    Path(effect).touch()
