"""Pages as a browser without scripts has them: what they show, and what their forms do."""

from __future__ import annotations

from html import unescape
from typing import Any
from urllib.parse import unquote, urlencode

import httpx2

from .web_kit import Site

HOSTILE = "<script>alert(1)</script>\"'&"
"""A name that must stay text."""
_FORM = {"sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded"}


def page(site: Site, path: str, status: int = 200) -> str:
    """The HTML of a page."""
    answer = site.call("GET", path)
    assert answer.status_code == status, f"{answer.status_code}: {answer.text[-2000:]}"
    return answer.text


def shown(site: Site, path: str) -> str:
    """The text of a page, with its entities as what they stand for."""
    return unescape(page(site, path))


def submit(site: Site, path: str, **fields: Any) -> httpx2.Response:
    """Send a form as a browser does."""
    return site.call("POST", path, content=urlencode(fields, doseq=True), headers=_FORM)


def said(answer: httpx2.Response) -> str:
    """What the page after an act says of it."""
    assert answer.status_code == 303, f"{answer.status_code}: {answer.text[-2000:]}"
    return unquote(unquote(answer.headers["set-cookie"].partition("=")[2].partition(";")[0].strip('"')))


def act(site: Site, path: str, **fields: Any) -> str:
    """Send a form that asks first, as one who was asked; what is said then."""
    return said(submit(site, path, confirmed="yes", **fields))
