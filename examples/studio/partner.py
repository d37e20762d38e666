"""A partner that hears the studio's webhooks: a server on loopback that refuses one in ten, so that there is a log."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from holdfast.outbound import Policy

from . import tasks
from .pace import chance

_EVENTS: Final = ("job.failed", "flow")


class Partner:
    """Listens until it is closed."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
        self._thread = threading.Thread(target=self._server.serve_forever, name="studio partner", daemon=True)
        self._thread.start()

    def subscribe(self) -> None:
        """Ask to be told. Loopback is open to this app alone, and only at this port."""
        port = self._server.server_address[1]
        tasks.app.outbound = Policy(allow_http=True, allow_private=["127.0.0.0/8"], ports=[port])
        tasks.app.webhooks.add(f"http://127.0.0.1:{port}/hooks", events=_EVENTS, actor="studio")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Answers(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(503 if chance.random() < 0.1 else 204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the dashboard shows what came of it."""
