"""Which job a log record belongs to."""

from __future__ import annotations

import json
import logging
import time
from contextvars import ContextVar
from typing import Final

from .model.job import Claimed

current_job: Final[ContextVar[Claimed | None]] = ContextVar("holdfast_job", default=None)


class JobFilter(logging.Filter):
    """Gives each record the fields `job`, `task` and `attempt`; empty outside a job."""

    def filter(self, record: logging.LogRecord) -> bool:
        job = current_job.get()
        for name, value in (("job", job and job.id), ("task", job and job.task), ("attempt", job and job.attempt)):
            if not hasattr(record, name):
                setattr(record, name, value or "")
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object per line, its time in UTC."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: value for name in ("job", "task", "attempt") if (value := getattr(record, name, ""))}
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)
