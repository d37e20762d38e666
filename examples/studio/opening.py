"""The studio in one process: its past, its worker, its customers and its dashboard."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager

from holdfast.web.serving import serve, settings_for

from . import tasks
from .partner import Partner
from .past import make_past
from .traffic import Traffic


def open_studio(port: int) -> None:
    """Serve the studio on this port of loopback."""
    print("making an hour of the studio's past …", flush=True)
    with living_studio():
        settings = settings_for("127.0.0.1", auth=None, hosts=(), behind_proxy=False, any_task=False)

        def say(address: str, _auth: str) -> None:
            print(f"the dashboard is on {address}; Ctrl-C ends it", flush=True)

        serve(tasks.app, settings, "127.0.0.1", port, behind_proxy=False, ready=say)


@contextmanager
def living_studio() -> Iterator[None]:
    """Give the studio's app a past, a worker, a partner and customers."""
    app = tasks.app
    app.migrate()
    # Its failures are for the dashboard, not for the terminal.
    logging.getLogger("holdfast").setLevel(logging.CRITICAL)
    make_past()
    traffic = Traffic()
    try:
        with closing(Partner()) as partner, app.worker(concurrency=12, name="studio"):
            partner.subscribe()
            traffic.start()
            yield
    finally:
        traffic.stop()
        app.close()
