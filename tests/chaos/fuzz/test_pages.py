"""Every page of an app whose every field is hostile, on both stores: the markup on it is ours alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

import holdfast
from holdfast.storage.ops.stats import errors
from tests.browser.hostile import NAMES, TEXTS, fill, hostile_app, queue_of
from tests.browser.places import PLACES
from tests.chaos.dials import Figure, scaled
from tests.postgres_server import url_of
from tests.web.web_kit import Site

from .dice import dice

STRANGE = {"iframe", "object", "embed", "base", "style", "math", "img", "animate", "foreignobject", "applet", "frame"}
LEADS = {"href", "src", "action", "formaction", "xlink:href", "data", "hx-get", "hx-post", "poster", "background"}
SEARCHES = ("/jobs?q={}", "/jobs?queue={}", "/jobs?tag={}", "/flows?name={}", "/errors?task={}", "/audit?actor={}",
         "/nowhere/{}",
            "/jobs/{}", "/?window={}", "/login?next={}", "/schedules?q={}", "/queues?q={}")  # fmt: skip


class Scan(HTMLParser):
    """Notes whatever no page of ours has."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.wrong: list[str] = []
        self._in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._in_script = tag == "script"
        if tag in STRANGE or (tag == "script" and not (given.get("src") or "").startswith("/static/")):
            self.wrong.append(f"<{tag} {given}>")
        if tag == "meta" and "http-equiv" in given:
            self.wrong.append(f"<meta {given}>")
        for name, value in attrs:
            if name.startswith("on") or name in ("style", "srcdoc", "autofocus") or "pwned" in name:
                self.wrong.append(f"{tag} {name}={value}")
            if name in LEADS and (
                urlsplit((value or "").strip()).scheme or (value or "").strip().startswith(("//", "\\"))
            ):
                self.wrong.append(f"{tag} {name}={value}")

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False

    def handle_data(self, data: str) -> None:
        if self._in_script and data.strip():
            self.wrong.append(f"script: {data[:80]}")

    def handle_comment(self, data: str) -> None:
        if "pwned" in data:
            self.wrong.append(f"comment: {data[:80]}")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def hostile(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Site, dict[str, list[str]]]]:
    databases, dsn = None, ""
    if request.param == "postgres":
        databases = request.getfixturevalue("postgres_databases")
        dsn = databases.create(request.getfixturevalue("postgres_template"))
    app = hostile_app(url_of(dsn) if dsn else str(tmp_path_factory.mktemp("hostile") / "jobs.db"))
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner() as runner:
        patch.setattr(errors, "_LAG", 0)
        site = Site(app, runner, auth="off")
        yield site, fill(app)
        site.close()
    app.close()
    if databases is not None:
        databases.drop(dsn)


@pytest.mark.proof
@pytest.mark.timeout(0)
def test_no_page_has_markup_that_came_in_a_name(hostile: tuple[Site, dict[str, list[str]]], figure: Figure) -> None:
    site, places = hostile
    addresses = [place for path, known in PLACES.items() if "{" not in path for place in known]
    addresses += [place for kind in places.values() for place in kind]
    addresses += [f"/queues/{quote(queue_of(name), safe='')}" for name in NAMES]
    addresses += [f"/schedules/{quote(name, safe='')}{tab}" for name in NAMES for tab in ("", "?tab=edit")]
    chosen = dice("pages").sample(addresses, min(len(addresses), scaled(60)))
    for address in chosen:
        harmless(site, address)
    figure(len(chosen), "pages with hostile text")


@pytest.mark.parametrize("count", [12, pytest.param(scaled(90), marks=[pytest.mark.proof, pytest.mark.timeout(0)])])
def test_what_stands_in_an_address_is_text(count: int, tmp_path: Path, figure: Figure) -> None:
    app = holdfast.App(str(tmp_path / "jobs.db"), durable=False)
    with asyncio.Runner() as runner:
        site = Site(app, runner, auth="off")
        addresses = [where.format(quote(text, safe="")) for text in TEXTS for where in SEARCHES]
        chosen = dice("addresses").sample(addresses, min(count, len(addresses)))
        for address in chosen:
            harmless(site, address)
        site.close()
    app.close()
    figure(len(chosen), "pages with hostile text")


def harmless(site: Site, address: str) -> None:
    answer = site.call("GET", address)
    assert answer.status_code < 500, f"{address}: {answer.status_code} {answer.text[:300]}"
    scan = Scan()
    scan.feed(answer.text)
    assert scan.wrong == [], f"{address}: {scan.wrong[:5]}"
