"""Liveness and readiness over HTTP, for the probes of a container: /health/live and /health/ready.

The server has threads of its own, so it answers also while the worker's event loop is blocked. Worker processes under a
supervisor send it their conditions through a pipe each, and the supervisor answers for all of them.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
from collections.abc import Callable
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, Any, Final, Literal

from ..clock import SYSTEM_CLOCK, Clock
from ..errors import ConfigError
from ..worker.condition import STARTING, STOPPING, Condition
from ..worker.processes.parent import HEALTH_PIPE_VARIABLE
from ..worker.processes.supervisor import Supervisor

logger: Final = logging.getLogger("holdfast.worker")

LIVE: Final = "/health/live"
READY: Final = "/health/ready"

_REPORTS_PER_LEASE: Final = 8
_LONGEST_PAUSE: Final = 1.0
_TIMEOUT: Final = 5.0

Examine = Callable[[], Condition]
Probe = Literal["live", "ready"]


class ProbeServer:
    """Serves what `examine` returns, until `close`."""

    def __init__(self, examine: Examine, port: int, host: str = "127.0.0.1") -> None:
        try:
            self._server = (_Server6 if ":" in host else _Server)((host, port), _handler(examine))
        except OSError as error:
            raise ConfigError(
                f"health cannot be served on {host}, port {port} ({error.strerror}); give another --health-port"
            ) from None
        self.port: Final[int] = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, name="holdfast-health", daemon=True).start()
        logger.info("health is at http://%s:%d%s and %s", host, self.port, LIVE, READY)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def ask(probe: Probe, port: int, host: str = "127.0.0.1") -> tuple[bool, str]:
    """Ask the worker of this machine; return the answer and its text."""
    connection = HTTPConnection(host, port, timeout=_TIMEOUT)
    try:
        connection.request("GET", LIVE if probe == "live" else READY)
        answer = connection.getresponse()
        return answer.status == 200, str(json.loads(answer.read())["message"])
    except (OSError, ValueError, KeyError) as error:
        return False, f"no worker answers on port {port}: {error}"
    finally:
        connection.close()


def report(examine: Examine, lease: float) -> bool:
    """Send the conditions of this worker to its supervisor from now on; False if none has asked for them."""
    # Removed, so that programs started by a job do not write to it.
    number = os.environ.pop(HEALTH_PIPE_VARIABLE, "")
    if not number.isdecimal():
        return False
    os.set_inheritable(int(number), False)
    pipe = os.fdopen(int(number), "w", encoding="utf-8")
    threading.Thread(target=_report, args=(pipe, examine, lease), name="holdfast-report", daemon=True).start()
    return True


def _report(pipe: IO[str], examine: Examine, lease: float) -> None:
    pause, never = min(_LONGEST_PAUSE, lease / _REPORTS_PER_LEASE), threading.Event()
    while True:
        it = examine()
        try:
            print(json.dumps([it.is_alive, it.is_ready, it.text]), file=pipe, flush=True)
        except OSError:
            return  # the supervisor is gone
        never.wait(pause)


class Crew:
    """The conditions of a supervisor's worker processes."""

    def __init__(self, lease: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self._lease = lease
        self._clock = clock
        self._heard: dict[int, tuple[float, Condition]] = {}
        """By the number of the slot: when its process last reported, and what."""

    def open_pipe(self, number: int) -> int:
        """Return the end that the next process of this slot writes to."""
        outlet, inlet = os.pipe()
        self._heard[number] = self._clock.monotonic(), STARTING
        threading.Thread(target=self._listen, args=(number, outlet), name="holdfast-reports", daemon=True).start()
        return inlet

    def _listen(self, number: int, outlet: int) -> None:
        with os.fdopen(outlet, encoding="utf-8") as lines:
            for line in lines:
                self._heard[number] = self._clock.monotonic(), Condition(*json.loads(line))

    def condition(self, supervisor: Supervisor) -> Condition:
        """Return the condition of all: alive if each process is, or is about to be started again."""
        if supervisor.is_stopping:
            return STOPPING
        found = [self._of(slot.number, runs=slot.process is not None) for slot in supervisor.slots]
        return min(found, key=lambda it: (it.is_alive, it.is_ready))

    def _of(self, number: int, *, runs: bool) -> Condition:
        if not runs:
            return Condition(True, False, f"worker process {number} is about to be started")
        heard_at, condition = self._heard[number]
        silence = self._clock.monotonic() - heard_at
        if silence > self._lease:
            return Condition(False, False, f"worker process {number} has not reported for {silence:.0f} s")
        if condition.is_ready:
            return condition
        return Condition(condition.is_alive, False, f"worker process {number}: {condition.text}")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # If another process listens there, the bind must fail rather than share the port.
    allow_reuse_port = False


class _Server6(_Server):
    address_family = socket.AF_INET6


def _handler(examine: Examine) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "holdfast"
        sys_version = ""
        timeout = 10

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path not in (LIVE, READY):
                self._answer(404, "failed", f"there are only {LIVE} and {READY} here")
                return
            it = examine()
            good = it.is_alive if path == LIVE else it.is_ready
            self._answer(200 if good else 503, "ok" if good else "failed", it.text)

        def _answer(self, code: int, status: str, message: str) -> None:
            body = json.dumps({"status": status, "message": message}).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            logger.debug(format, *args)

    return Handler
