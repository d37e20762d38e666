"""Logs of a worker: on standard error, as lines for people or as JSON, each naming the job it belongs to."""

from __future__ import annotations

import logging
import sys
import time
from typing import Literal

from ..telemetry import JobFilter, JsonFormatter


class TextFormatter(logging.Formatter):
    """`2026-01-31T12:00:00.000Z INFO    holdfast.engine: message  [job=… task=… attempt=…]`."""

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        bound = " ".join(
            f"{name}={value}" for name in ("job", "task", "attempt") if (value := getattr(record, name, ""))
        )
        return super().formatMessage(record) + (f"  [{bound}]" if bound else "")


def set_up_logs(form: Literal["text", "json"], level: str) -> None:
    """Take over the root logger, unless the program has set it up already."""
    root = logging.getLogger()
    root.setLevel(level.upper())
    if root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(JobFilter())
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root.addHandler(handler)
