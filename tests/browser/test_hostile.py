"""Hostile texts in every field stay texts, in a browser that no policy holds back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

import holdfast
from holdfast.storage.ops.stats import errors
from tests.web.web_kit import served

from .hostile import NAMES, TEXTS, fill, hostile_app, hostile_worker, queue_of
from .looking import Complaints
from .places import PLACES
from .shop import Shop

LISTS = [place for path, places in PLACES.items() if "{" not in path for place in places[:1]]

# What an element must not be, and what it must not carry, on any page of ours. Charts are drawn here, not sent.
SCAN = """(root) => [...root.querySelectorAll("*")].flatMap((element) => {
  const wrong = [];
  const own = (url) => new URL(url, location.href).origin === location.origin;
  const name = element.localName;
  if (element.closest(".uplot")) return [];
  const path = (url) => new URL(url, location.href).pathname;
  if (name === "script" && (element.textContent || !path(element.src).startsWith("/static/"))) wrong.push("script");
  const strange = ["iframe", "object", "embed", "base", "style", "math", "img", "animate", "foreignobject"];
  if (strange.includes(name)) wrong.push(name);
  if (name === "meta" && element.httpEquiv) wrong.push("meta");
  for (const { name, value } of element.attributes) {
    if (name.startsWith("on") || ["style", "srcdoc", "autofocus"].includes(name)) wrong.push(name);
    const leads = ["href", "src", "action", "formaction", "xlink:href", "data"].includes(name);
    if (leads && !own(value)) wrong.push(name + "=" + value);
  }
  return wrong.map((what) => what + " in " + element.outerHTML.slice(0, 200));
})"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[holdfast.App]:
    app = hostile_app(str(tmp_path_factory.mktemp("hostile") / "jobs.db"))
    with hostile_worker(app):
        yield app
    app.close()


@pytest.fixture(scope="module")
def places(app: holdfast.App) -> dict[str, list[str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(errors, "_LAG", 0)
        return Shop(app).ask(fill)


@pytest.fixture(scope="module")
def unguarded(browser: Browser, app: holdfast.App, places: dict[str, list[str]]) -> Iterator[Page]:
    """A page without our policy: what is not escaped runs."""
    with served(app, auth="off") as address:
        context = browser.new_context(base_url=address, bypass_csp=True, viewport={"width": 1280, "height": 900})
        complaints = Complaints(context)
        page = context.new_page()
        yield page
        assert not [one for one in complaints.found if one.startswith("dialog")]
        context.close()


@pytest.mark.parametrize("place", LISTS)
def test_lists_show_hostile_names_as_text(unguarded: Page, place: str) -> None:
    opened(unguarded, place)


@pytest.mark.parametrize("kind", ["told", "everything"])
def test_what_a_job_says_leaves_and_hears_is_text(unguarded: Page, places: dict[str, list[str]], kind: str) -> None:
    for place in places[kind]:
        opened(unguarded, place)


@pytest.mark.parametrize("kind", ["job", "flow", "error", "asked", "endpoint"])
def test_pages_about_something_hostile_show_it_as_text(
    unguarded: Page, places: dict[str, list[str]], kind: str
) -> None:
    opened(unguarded, places[kind][6])
    read(unguarded, places[kind])


def test_names_in_addresses_are_text(unguarded: Page) -> None:
    read(unguarded, [f"/queues/{quote(queue_of(name), safe='')}" for name in NAMES], shows=queue_of)
    read(unguarded, [f"/schedules/{quote(name, safe='')}" for name in NAMES], shows=str)
    read(unguarded, [f"/schedules/{quote(name, safe='')}?tab=edit" for name in NAMES], shows=str)


@pytest.mark.parametrize("where", ["/jobs?q={}", "/jobs?queue={}", "/jobs?tag={}", "/flows?name={}", "/errors?task={}",
                                   "/login?next={}", "/audit?actor={}", "/nowhere/{}", "/jobs/{}", "/?window={}",
                                   "/queues?q={}", "/schedules?q={}"])  # fmt: skip
def test_what_stands_in_the_address_is_text(unguarded: Page, where: str) -> None:
    read(unguarded, [where.format(quote(text, safe="")) for text in TEXTS])
    opened(unguarded, where.format(quote(NAMES[6], safe="")))


def test_what_a_cookie_says_is_text(unguarded: Page) -> None:
    said = quote('{"say": "<img src=x onerror=__pwned=1><script>__pwned=1</script>", "ok": true}')
    unguarded.context.add_cookies([{"name": "holdfast_flash", "value": said, "url": unguarded.url}])
    opened(unguarded, "/")
    assert "<img src=x" in unguarded.locator("[data-toasts]").inner_text()


def test_live_updates_are_text(unguarded: Page, app: holdfast.App) -> None:
    unguarded.goto("/jobs")
    unguarded.locator("[data-pulse][data-state=on]").wait_for()
    job = Shop(app).ask(lambda app: app.enqueue(app.tasks[NAMES[6]].job(NAMES[0])).id)
    unguarded.locator(f'tr[data-key="{job}"]').wait_for()
    harmless(unguarded)


def opened(page: Page, place: str) -> None:
    """The page, drawn and alive, does nothing that it should not."""
    page.goto(place)
    harmless(page)


def harmless(page: Page) -> None:
    assert page.evaluate(f"({SCAN})(document)") == []
    assert page.evaluate("window.__pwned") is None


def read(page: Page, places: list[str], shows: Callable[[str], str] | None = None) -> None:
    """Many pages, parsed as the browser parses them but not drawn."""
    found = page.evaluate(_READ, places)
    assert [(place, wrong) for place, (wrong, _) in zip(places, found, strict=True) if wrong] == []
    if shows is not None:
        missing = [name for name, (_, text) in zip(NAMES, found, strict=True) if shows(name) not in text]
        assert missing == []


_READ = f"""(places) => Promise.all(places.map(async (place) => {{
  const answer = await fetch(place);
  if (answer.status >= 500) return [["status " + answer.status], ""];
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  return [({SCAN})(page), page.body.textContent];
}}))"""
