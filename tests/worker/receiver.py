"""A server on loopback that answers by a script, and tells which batches it saw."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from holdfast.model import OutboxEvent
from tests.patience import SOON


@dataclass(frozen=True)
class Answer:
    """What the server says to one request."""

    status: int = 200
    body: str = "{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    hang_up: bool = False


class Receiver:
    """Takes batches of events as JSON. `script` answers the first requests, `rule` those after them."""

    def __init__(self) -> None:
        self.seen: list[list[dict[str, Any]]] = []
        self.script: list[Answer] = []
        self.rule: Callable[[list[Any]], Answer] = lambda _: Answer()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/events"

    @property
    def sizes(self) -> list[int]:
        """How many events each request had."""
        return [len(batch) for batch in self.seen]

    @property
    def data(self) -> list[list[Any]]:
        return [[event["data"] for event in batch] for batch in self.seen]

    def send(self, events: list[OutboxEvent]) -> None:
        """What a destination does: one request, and an exception unless it was answered well."""
        body = json.dumps([{"id": e.id, "data": e.data, "kind": e.kind, "hash": e.hash} for e in events]).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url, body, method="POST"), timeout=SOON) as answer:
            answer.read()

    def forget(self) -> None:
        self.seen.clear()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, batch: list[dict[str, Any]]) -> Answer:
        self.seen.append(batch)
        return self.script.pop(0) if self.script else self.rule([event["data"] for event in batch])


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            answer = receiver.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if answer.hang_up:
                self.close_connection = True
                self.connection.close()
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody listens."""

    return Handler
