"""Opens the studio: its past, its worker, its customers and its dashboard, in one process until it is interrupted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from ...app import App
from ...config import Config
from ...web.serving import serve, settings_for
from . import tasks
from .partner import Partner
from .past import make_past
from .traffic import Traffic


def open_studio(config: Config, port: int, say: Callable[[str], None]) -> None:
    """Serve the studio on this port of loopback."""
    say("an hour of the studio's past is being made …")
    with living_studio(config) as app:
        settings = settings_for("127.0.0.1", auth=None, hosts=(), behind_proxy=False, any_task=False)

        def told(address: str, _auth: str) -> None:
            say(f"the dashboard is on {address}; Ctrl-C ends it")

        serve(app, settings, "127.0.0.1", port, behind_proxy=False, ready=told)


@contextmanager
def living_studio(config: Config) -> Iterator[App]:
    """The studio's app while it lives: with a past, a worker, a partner and customers."""
    app = tasks.app
    app.migrate()
    # Its failures are for the dashboard, not for the terminal.
    logging.getLogger("holdfast").setLevel(logging.CRITICAL)
    make_past(config)
    traffic = Traffic()
    try:
        with closing(Partner()) as partner, app.worker(concurrency=12, name="studio"):
            partner.subscribe()
            traffic.start()
            yield app
    finally:
        traffic.stop()
        app.close()
