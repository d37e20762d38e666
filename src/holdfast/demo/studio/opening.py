"""Opens the studio: its past, its worker, its customers and its dashboard, in one process until it is interrupted."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ...config import Config
from ...web.serving import serve, settings_for
from . import tasks
from .past import make_past
from .traffic import Traffic


def open_studio(config: Config, port: int, say: Callable[[str], None]) -> None:
    """Serve the studio on this port of loopback."""
    app = tasks.app
    app.migrate()
    # Its failures are for the dashboard, not for the terminal.
    logging.getLogger("holdfast").setLevel(logging.CRITICAL)
    say("an hour of the studio's past is being made …")
    make_past(config)
    traffic = Traffic()
    try:
        with app.worker(concurrency=12, name="studio"):
            traffic.start()
            settings = settings_for("127.0.0.1", auth=None, hosts=(), behind_proxy=False, any_task=False)
            told = lambda address, _auth: say(f"the dashboard is on {address}; Ctrl-C ends it")  # noqa: E731
            serve(app, settings, "127.0.0.1", port, behind_proxy=False, ready=told)
    finally:
        traffic.stop()
        app.close()
