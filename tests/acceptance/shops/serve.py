"""Serve a shop on a socket that listens already: MODULE DESCRIPTOR. ASGI by uvicorn, WSGI by the standard library."""

from __future__ import annotations

import socket
import sys
from importlib import import_module
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer


class Threaded(ThreadingMixIn, WSGIServer):
    """A thread for each request, as in production."""


def main(module: str, descriptor: str) -> None:
    app: Any = import_module(f"tests.acceptance.shops.{module}").app
    listening = socket.socket(fileno=int(descriptor))
    if module == "with_django":
        host, port = listening.getsockname()
        server = Threaded((host, port), WSGIRequestHandler, bind_and_activate=False)
        server.socket.close()
        server.socket, server.server_name, server.server_port = listening, host, port
        server.setup_environ()
        server.set_app(app)
        server.serve_forever()
    else:
        import uvicorn

        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    main(*sys.argv[1:])
