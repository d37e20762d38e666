"""A reader of server-sent events, as a browser is one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2


@dataclass(frozen=True)
class Heard:
    """One event."""

    event: str
    data: Any
    id: str | None


@contextlib.contextmanager
def following(address: str, path: str, *, token: str | None = None, **headers: str) -> Iterator[Iterator[Heard]]:
    """Events of an answer that goes on; the connection is closed at the end of the block."""
    asked = {"accept": "text/event-stream", **{name.replace("_", "-"): value for name, value in headers.items()}}
    if token:
        asked["authorization"] = f"Bearer {token}"
    with httpx2.Client(timeout=30) as client, client.stream("GET", address + path, headers=asked) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield heard(response.iter_lines())


def heard(lines: Iterator[str]) -> Iterator[Heard]:
    """Lines as events. One without data is none, as browsers have it."""
    event, data, last = "message", "", None
    for line in lines:
        name, _, value = line.partition(": ")
        if not line and data:
            yield Heard(event, json.loads(data), last)
        if not line:
            event, data = "message", ""
        elif name == "event":
            event = value
        elif name == "data":
            data += value
        elif name == "id":
            last = value
