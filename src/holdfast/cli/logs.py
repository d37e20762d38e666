"""Logging of a worker: on standard error, as text or JSON, with the job each line belongs to."""

from __future__ import annotations

import logging
import sys
import time
from typing import Literal

from ..telemetry import JobLogFilter, JsonFormatter
from ..values.printable import printable_lines


class TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z INFO    holdfast.worker: message  [job=… task=… attempt=…]`."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
        self._second = (-1, "")

    def format(self, record: logging.LogRecord) -> str:
        # No text in a message can begin a line of the log, or reach the terminal as a command.
        return printable_lines(super().format(record)).replace("\n", "\n    ")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        second, text = self._second
        if second != (now := int(record.created)):
            # Formatted once a second: it took half of the time of a line.
            text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
            self._second = now, text
        return f"{text}.{int(record.msecs):03d}Z"

    def formatMessage(self, record: logging.LogRecord) -> str:
        line, job = super().formatMessage(record), getattr(record, "job", "")
        if job and job in record.message:
            return line  # Messages about a job already name it.
        bound = " ".join(
            f"{name}={value}" for name in ("job", "task", "attempt") if (value := getattr(record, name, ""))
        )
        return line + (f"  [{bound}]" if bound else "")


def set_up_logs(form: Literal["text", "json"], level: str) -> None:
    """Configure the root logger, unless the program has already done so."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    if root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(JobLogFilter())
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root.addHandler(handler)
