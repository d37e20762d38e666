"""Producers and workers in separate processes on one store."""

from __future__ import annotations

from collections import Counter

import pytest

import holdfast
from tests.acceptance.fleet import Fleet, until

pytestmark = pytest.mark.thorough

PRODUCERS = 4
EACH = 250
PRODUCE = f"""
from tests.acceptance.jobs import entry
for n in range({EACH}):
    entry.options(dedupe_key=f"{{n}}" if n % 10 == 0 else None).enqueue(0)
"""


@pytest.mark.timeout(300)
def test_producers_and_workers_share_a_store_without_one_lock_error(app: holdfast.App, workers: Fleet) -> None:
    for _ in range(PRODUCERS):
        workers.start("--concurrency", "10")
    producers = [workers.run_python("-c", PRODUCE) for _ in range(PRODUCERS)]
    assert [producer.wait(120) for producer in producers] == [0] * PRODUCERS, workers.log.read_text()[-3000:]
    until(lambda: _live(app) == 0, 120, "all is done", workers.log)
    assert workers.stop_all() == [0] * PRODUCERS
    states = Counter(count.state for count in app.jobs.counts() for _ in range(count.jobs))
    keyed = EACH // 10
    assert set(states) == {"succeeded"}
    assert PRODUCERS * (EACH - keyed) + keyed <= states["succeeded"] <= PRODUCERS * EACH
    assert "locked" not in workers.log.read_text()


def _live(app: holdfast.App) -> int:
    return sum(count.jobs for count in app.jobs.counts() if count.state in ("ready", "running", "delayed"))
