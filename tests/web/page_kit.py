"""Pages for tests: opened, acted on, and read as a person would."""

from __future__ import annotations

import html
import json
import re
from typing import Any
from urllib.parse import unquote

import httpx2

from .web_kit import Site

HOSTILE = "<img src=x onerror=alert(1)>\"'`{{7*7}}"
"""A text that must stay one."""


def opened(site: Site, path: str, status: int = 200) -> str:
    """The HTML of a page."""
    answer = site.call("GET", path)
    assert answer.status_code == status, f"{answer.status_code}: {words(answer.text)[:400]}"
    return answer.text


def acted(site: Site, path: str, **fields: Any) -> tuple[str, str]:
    """Post a form that is answered by a redirect: where to, and what is said there."""
    answer = _post(site, path, fields)
    assert answer.status_code == 303, f"{answer.status_code}: {words(answer.text)[:400]}"
    said = json.loads(unquote(answer.cookies["holdfast_flash"].strip('"')))
    return answer.headers["location"], said["say"]


def posted(site: Site, path: str, status: int = 200, **fields: Any) -> str:
    """Post a form that is answered by a page: its HTML."""
    answer = _post(site, path, fields)
    assert answer.status_code == status, f"{answer.status_code}: {words(answer.text)[:400]}"
    return answer.text


def _post(site: Site, path: str, fields: dict[str, Any]) -> httpx2.Response:
    # A browser names the type of a form that has no fields, too.
    return site.call("POST", path, data=fields, headers={"content-type": "application/x-www-form-urlencoded"})


def words(page: str) -> str:
    """What a page says in its main part, without its markup."""
    main = page.partition("<main")[2] or page
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", main)).split())


def forms(page: str) -> list[str]:
    """Where the forms in the main part of a page post to."""
    return re.findall(r'<form[^>]*method="post"[^>]*action="([^"]+)"', page.partition("<main")[2])


def hidden(page: str, name: str) -> str:
    """The value of a hidden field."""
    found = re.search(rf'name="{name}" value="([^"]*)"', page.partition("<main")[2])
    assert found is not None, f"there is no field {name}"
    return html.unescape(found[1])
