"""The page of metrics over HTTP: without a token on loopback only, for requests that name this machine."""

from __future__ import annotations

import hmac
import logging
import socket
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from ..errors import ConfigError, HoldfastError
from ..rules.hosts import is_loopback, names_this_machine
from .exposition import CONTENT_TYPE

logger: Final = logging.getLogger("holdfast.metrics")

SHORTEST_TOKEN: Final = 16


class MetricsServer:
    """A page under /metrics, on the first free port of those given. It ends with `close`, or with the process."""

    def __init__(self, render: Callable[[], str], ports: Sequence[int], host: str, token: str | None) -> None:
        """`token` is the bearer token that every request must bring; None demands none, which takes loopback."""
        check_exposure(host, token)
        self._server = _bind(host, ports, _handler(render, None if token is None else f"Bearer {token}"))
        self.port: Final[int] = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="holdfast-metrics", daemon=True)
        self._thread.start()
        shown = f"[{host}]" if ":" in host else host
        logger.info("metrics are at http://%s:%d/metrics", shown, self.port)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def check_exposure(host: str, token: str | None) -> None:
    """Raise ConfigError if other machines could read the page without a token, or could guess it."""
    if token is None:
        if not is_loopback(host):
            raise ConfigError(
                f"other machines can reach {host or 'every address'}, so the metrics need a token; set"
                f" HOLDFAST_METRICS_TOKEN to a random text of at least {SHORTEST_TOKEN} characters, and have Prometheus"
                " send it as its bearer token"
            )
    elif len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"the token of the metrics must have at least {SHORTEST_TOKEN} printable ASCII characters and no spaces;"
            " make one: openssl rand -hex 32"
        )


def _bind(host: str, ports: Sequence[int], handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    kind = _Server6 if ":" in host else _Server
    taken: OSError | None = None
    for port in ports:
        try:
            return kind((host, port), handler)
        except OSError as error:
            taken = error
    span = f"port {ports[0]} is" if len(ports) == 1 else f"ports {ports[0]} to {ports[-1]} are"
    raise ConfigError(f"{span} in use, or {host} is no address of this machine; give another --metrics-port") from taken


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # If another process listens there, the bind must fail rather than share the port.
    allow_reuse_port = False


class _Server6(_Server):
    address_family = socket.AF_INET6


def _handler(render: Callable[[], str], authorization: str | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "holdfast"
        sys_version = ""
        timeout = 10

        def do_GET(self) -> None:
            if refusal := self._refusal():
                code, text = refusal
                self._answer(code, text)
                return
            try:
                text = render()
            except HoldfastError as error:
                logger.warning("the metrics could not be read: %s", error)
                self._answer(503, f"the store does not answer: {error.code}\n")
                return
            self._answer(200, text, CONTENT_TYPE)

        def _refusal(self) -> tuple[int, str] | None:
            given = self.headers.get("authorization", "")
            # Another site may have pointed its name here (DNS rebinding); its pages do not know the token.
            if authorization is None and not names_this_machine(self.headers.get("host", "")):
                return 421, "unknown host; ask for localhost, or set HOLDFAST_METRICS_TOKEN\n"
            if authorization is not None and not hmac.compare_digest(given.encode(), authorization.encode()):
                return 401, "a bearer token is needed: that of HOLDFAST_METRICS_TOKEN\n"
            return (404, "there is only /metrics here\n") if self.path.partition("?")[0] != "/metrics" else None

        def _answer(self, code: int, text: str, kind: str = "text/plain; charset=utf-8") -> None:
            body = text.encode()
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if code == 401:
                self.send_header("WWW-Authenticate", "Bearer")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            logger.debug(format, *args)

    return Handler
