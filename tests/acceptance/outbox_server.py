"""A receiver of events with a mind of its own: `python -m tests.acceptance.outbox_server PORT LEDGER`.

It refuses a batch with an invalid event as a whole, sets limits now and then, and notes what it has accepted, on disk
before it answers.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

EVERY = 40
"""So many requests until one is refused for the time being."""


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    requests = itertools.count(1)
    ledger = ""

    def do_POST(self) -> None:
        events = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if next(self.requests) % EVERY == 0:
            self._answer(429, {"Retry-After": "1"})
        elif any(event["data"]["invalid"] for event in events):
            self._answer(422)
        else:
            self._note("".join(f"{event['id']} {event['data']['n']}\n" for event in events))
            self._answer(200)

    def _note(self, lines: str) -> None:
        handle = os.open(self.ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, lines.encode())
            os.fsync(handle)
        finally:
            os.close(handle)

    def _answer(self, status: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": "0", **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the ledger is the log."""


def main(port: str, ledger: str) -> None:
    Receiver.ledger = ledger
    ThreadingHTTPServer.allow_reuse_address = True
    ThreadingHTTPServer.daemon_threads = True
    ThreadingHTTPServer(("127.0.0.1", int(port)), Receiver).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
