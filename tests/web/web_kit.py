"""The site for tests: called in process, or served on loopback where an answer goes on for long."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import uvicorn

import holdfast
from holdfast.web import asgi
from tests.patience import SOON


class Site:
    """An app's site, and one caller of it. Calls block; each runs on the same event loop."""

    def __init__(self, app: holdfast.App, runner: asyncio.Runner, token: str | None = None, **settings: Any) -> None:
        self.app = app
        self._runner = runner
        self._settings = settings
        self.asgi = asgi(app, **settings)
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._client = httpx2.AsyncClient(
            transport=httpx2.ASGITransport(self.asgi), base_url="http://localhost", headers=headers
        )

    def call(self, method: str, path: str, **how: Any) -> httpx2.Response:
        """One request, whatever its answer."""
        return self._runner.run(self._client.request(method, path, **how))

    async def acall(self, method: str, path: str, **how: Any) -> httpx2.Response:
        """The same, for what runs on the loop of the site."""
        return await self._client.request(method, path, **how)

    def get(self, path: str, **how: Any) -> Any:
        """The JSON of a GET that succeeds."""
        return self._good(self.call("GET", f"/api/v1{path}", **how))

    def post(self, path: str, body: Any = None, **how: Any) -> Any:
        """The JSON of a POST that succeeds."""
        return self._good(self.call("POST", f"/api/v1{path}", json={} if body is None else body, **how))

    def put(self, path: str, body: Any) -> Any:
        """The JSON of a PUT that succeeds."""
        return self._good(self.call("PUT", f"/api/v1{path}", json=body))

    def patch(self, path: str, body: Any) -> Any:
        """The JSON of a PATCH that succeeds."""
        return self._good(self.call("PATCH", f"/api/v1{path}", json=body))

    def delete(self, path: str) -> Any:
        """The JSON of a DELETE that succeeds."""
        return self._good(self.call("DELETE", f"/api/v1{path}"))

    def refused(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        """The status and the message of a request that does not succeed."""
        how = {} if method in ("GET", "DELETE") else {"json": {} if body is None else body}
        answer = self.call(method, f"/api/v1{path}", **how)
        assert answer.status_code >= 400, f"{answer.status_code}: {answer.text}"
        return answer.status_code, answer.json()["error"]["message"]

    def as_role(self, role: str, *, tenant: str | None = None) -> Site:
        """The same site with authentication, called with a token of this role."""
        token = self.app.tokens.create(f"{role}-{tenant or 'all'}", role=role, tenant=tenant).secret
        return Site(self.app, self._runner, token, **{**self._settings, "auth": "required"})

    def with_settings(self, **settings: Any) -> Site:
        """Another site of the same app."""
        return Site(self.app, self._runner, **{**self._settings, **settings})

    def with_token(self, secret: str) -> Site:
        """The same site with authentication, called with this token."""
        return Site(self.app, self._runner, secret, **{**self._settings, "auth": "required"})

    def as_nobody(self) -> Site:
        """The same site with authentication, called without a token."""
        return Site(self.app, self._runner, **{**self._settings, "auth": "required"})

    def run(self, awaitable: Any) -> Any:
        """Run something on the loop of the site."""
        return self._runner.run(awaitable)

    def close(self) -> None:
        self._runner.run(self._client.aclose())

    @staticmethod
    def _good(response: httpx2.Response) -> Any:
        assert response.status_code < 300, f"{response.status_code}: {response.text}"
        return response.json() if response.content else None


@contextlib.contextmanager
def served(app: holdfast.App, *, http: Any = "auto", **settings: Any) -> Iterator[str]:
    """The site on a free port of loopback, in a thread of its own; its address."""
    with listening(asgi(app, **settings), http) as address:
        yield address


@contextlib.contextmanager
def listening(application: Any, http: Any = "auto") -> Iterator[str]:
    """Any ASGI application on a free port of loopback, in a thread of its own; its address."""
    config = uvicorn.Config(application, port=0, log_level="warning", timeout_graceful_shutdown=1, http=http)
    server = uvicorn.Server(config)
    started = threading.Event()
    startup = server.startup

    async def announce(*args: Any, **kwargs: Any) -> None:
        await startup(*args, **kwargs)
        started.set()

    server.startup = announce  # type: ignore[method-assign]
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert started.wait(SOON), "the server did not start"
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(SOON)
