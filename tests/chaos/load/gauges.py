"""Reads what the load does to processes, files and the store: from `/proc`, the store's own figures, the ledger."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import holdfast

from .slopes import Sample

_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
_PAGE = os.sysconf("SC_PAGE_SIZE")
MB = 1024 * 1024
LogSize = Callable[[], float]
"""Megabytes, where the store itself does not tell."""


class Gauges:
    """Series of samples by name."""

    def __init__(self, app: holdfast.App, tally: Tally, log_size: LogSize | None = None) -> None:
        self._app = app
        self._log_size = log_size
        self._tally = tally
        self.series: dict[tuple[str, str], list[Sample]] = {}

    def read(self, at: float, processes: dict[str, int]) -> None:
        for name, pid in processes.items():
            self._add(at, f"memory of {name}", "MB", resident(pid) / MB)
            self._add(at, f"handles of {name}", "", len(os.listdir(f"/proc/{pid}/fd")))
        store = self._app.stats.store()
        self._add(at, "database", "MB", store.bytes / MB)
        self._add(at, "log", "MB", self._log_size() if self._log_size else (store.wal_bytes or 0) / MB)
        self._add(at, "dead rows", "rows", store.dead_rows)
        self._add(at, "claim p99, as workers say", "ms", None if store.claim_p99 is None else store.claim_p99 * 1000)
        self._tally.read()
        if waits := self._tally.take_waits():
            self._add(at, "enqueue to start, p50", "ms", waits[len(waits) // 2])
            self._add(at, "enqueue to start, p99", "ms", waits[len(waits) * 99 // 100])

    def _add(self, at: float, name: str, unit: str, value: float | None) -> None:
        if value is not None:
            self.series.setdefault((name, unit), []).append((at, float(value)))


class Tally:
    """What the ledger says so far: who was acknowledged, who has begun and how often, who has done its work."""

    def __init__(self, ledger: Path) -> None:
        self._handle = ledger.open("rb")
        self._pending = b""
        self._waits: list[float] = []
        self.acknowledged: set[str] = set()
        self.starts: Counter[str] = Counter()
        self.done: set[str] = set()

    def read(self) -> None:
        *lines, self._pending = (self._pending + self._handle.read()).split(b"\n")
        for line in lines:
            mark, job, epoch, _, at = line.decode().split()
            if mark == "Q":
                self.acknowledged.add(job)
            elif mark == "E":
                self.done.add(job)
            elif mark == "S":
                self.starts[job] += 1
                if epoch == "1":
                    self._waits.append(float(at) * 1000 - made_at(job))

    def take_waits(self) -> list[float]:
        """From enqueue to first start, of those who began since the last call, sorted; milliseconds."""
        waits, self._waits = sorted(self._waits), []
        return waits

    @property
    def is_done(self) -> bool:
        return self.acknowledged <= self.done

    def close(self) -> None:
        self._handle.close()


def made_at(job_id: str) -> int:
    """The millisecond in which an id was made."""
    value = 0
    for letter in job_id[:10]:
        value = value * 32 + _LETTERS.index(letter)
    return value


def resident(pid: int) -> int:
    """Bytes of memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
