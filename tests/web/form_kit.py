"""Pages opened as text, forms sent as a browser without script sends them, and parts as those who follow get them."""

from __future__ import annotations

from html import unescape
from typing import Any
from urllib.parse import unquote, urlencode

import httpx2

from holdfast.model.access import LOCAL
from holdfast.web.live.live_pages import LivePages, _RenderedPage
from holdfast.web.wire.reading import read_arguments

from .web_kit import Site

HOSTILE = "<img src=x onerror=alert(1)>\"'&{{7*7}}"
"""A name that must stay text."""
_FORM = {"sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded"}


def open_page(site: Site, path: str, status: int = 200) -> str:
    """The HTML of a page that opens."""
    answer = site.call("GET", path)
    assert answer.status_code == status, f"{path}: {answer.status_code}: {answer.text[-2000:]}"
    return answer.text


def post(site: Site, path: str, **fields: Any) -> httpx2.Response:
    """The answer to a form, whatever it is."""
    return site.call("POST", path, content=urlencode(fields), headers=_FORM)


def send(site: Site, path: str, **fields: Any) -> tuple[str, str]:
    """Where a form leads, and what is said there."""
    answer = post(site, path, **fields)
    assert answer.status_code == 303, f"{path}: {answer.status_code}: {answer.text[-2000:]}"
    return answer.headers["location"], unquote(answer.headers["set-cookie"])


def answer_of(site: Site, path: str, **fields: Any) -> tuple[int, str]:
    """The status and the text of the page that a form leads to at once."""
    answer = post(site, path, **fields)
    return answer.status_code, unescape(answer.text)


def live_parts(site: Site, path: str) -> int:
    """How many parts of a page are followed: each is rendered alone, as those who follow it are sent it."""
    watching = _watching(site.asgi)

    async def render() -> int:
        operation, values = watching._find(path)
        call = watching._call({"type": "http", "root_path": ""}, path, LOCAL)
        given = await read_arguments(operation, call.request, values, 0, 1.0)
        return len(await _RenderedPage(watching._renderer, operation, given, call).render())

    count: int = site.run(render())
    return count


def _watching(guard: Any) -> LivePages:
    found: LivePages = guard._inner._parts["/live"]
    return found
