"""Real processes in tests: how to start them, name them, and see them gone."""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path
from typing import Final

from holdfast.worker.processes.identity import is_gone, process_key
from tests.patience import SOON

ENV: Final = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def key_of(pid: int) -> str:
    """The process key of another process."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return f"{process_key().rsplit(':', 2)[0]}:{pid}:{stat[19]}"


def wait_gone(key: str) -> None:
    """Returns when the process has ended, whoever its parent is."""
    pid = int(key.rsplit(":", 2)[1])
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with os.fdopen(descriptor) as end:
        assert select.select([end], [], [], SOON)[0], f"process {pid} lives on"
    assert is_gone(key)
