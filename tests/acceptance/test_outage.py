"""Postgres goes away and comes back; the worker waits, and goes on by itself."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

import holdfast
from tests.acceptance.conftest import producer_for, url_of
from tests.acceptance.fleet import fleet, ids_of, until
from tests.patience import SOON
from tests.postgres_server import private_server


@pytest.mark.timeout(400)
def test_a_worker_outlives_a_crash_and_an_outage_of_postgres(tmp_path: Path) -> None:
    with private_server(fsync="on") as server, fleet(url_of(server.dsn), tmp_path) as workers:
        app = producer_for(url_of(server.dsn))
        app.migrate()
        task = app.tasks["entry"]
        workers.start()
        task.enqueue(0).wait(60)
        running = task.enqueue(3)
        until(lambda: running.id in ids_of(workers.lines(), "S"), 60, "it runs", workers.log)
        server.stop(signal.SIGQUIT)
        began = time.monotonic()
        with pytest.raises(holdfast.StorageUnavailable):
            task.enqueue(0)
        assert time.monotonic() - began < SOON, "it is told, and does not wait for the server"
        # Longer than the lease of 2 s: the worker fences itself, and nobody is convicted of that.
        until(lambda: "handed back" in workers.log.read_text(), 60, "the worker fences itself", workers.log)
        server.start()
        after = task.enqueue(0)
        assert after.wait(60) == "succeeded"
        assert running.wait(60) == "succeeded"
        assert running.status().crashes == 0
        assert workers.stop_all() == [0]
        app.close()
