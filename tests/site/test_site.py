"""The documentation site as its readers meet it: on a desk and on a phone, from a server and from a disk."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.looking import DESK, PATIENCE, PHONE, Complaints, wide
from tests.site.conftest import ROOT

pytestmark = pytest.mark.timeout(600)
widths = pytest.mark.parametrize("width", [DESK, PHONE], ids=["desk", "phone"])

# What readers ask, and the page that answers it.
QUESTIONS = {
    "how do I retry a failed job": "how-to/retries-and-failures",
    "limit concurrency": "how-to/limit-what-runs",
    "rate limit an API": "how-to/limit-what-runs",
    "run on a schedule": "how-to/run-jobs-on-a-schedule",
    "cron": "how-to/run-jobs-on-a-schedule",
    "enqueue in a transaction": "how-to/enqueue-in-your-transaction",
    "why is my job not running": "how-to/find-out-why-a-job-does-not-run",
    "cancel a running job": "how-to/cancel-and-time-out",
    "set a timeout": "how-to/cancel-and-time-out",
    "avoid duplicate jobs": "how-to/dedupe-and-debounce",
    "wait for human approval": "how-to/signals",
    "exactly once": "guarantees",
    "move from sqlite to postgres": "how-to/move-to-postgres",
    "run the worker with systemd": "how-to/run-workers-in-production",
    "test my tasks with pytest": "how-to/test-your-jobs",
    "prometheus metrics": "how-to/watch-it-run",
    "stream llm tokens": "how-to/streams",
    "run jobs one after another in a chain": "how-to/flows",
    "pause a queue": "how-to/operate-queues",
    "send a webhook": "how-to/webhooks",
    "environment variables": "reference/settings",
    "delete old jobs": "how-to/keep-the-store-small",
    "password for the dashboard": "how-to/protect-the-dashboard",
    "multi tenant": "how-to/tenants",
    "benchmark against celery": "explanation/performance",
    "resume after a crash": "how-to/durable-steps",
    "worker segfault": "how-to/isolate-crashing-code",
    "database is down": "how-to/enqueue-while-the-store-is-away",
    "gpu workers": "how-to/routing",
    "spending limit for tokens": "how-to/budgets",
    "database is locked error": "faq",
    "celery alternative": "explanation/choosing-holdfast",
    "kubernetes liveness probe": "how-to/deploy",
    "backup sqlite database": "how-to/backup-and-restore",
    "fastapi background tasks": "how-to/fastapi",
    "dead letter queue": "how-to/operate-queues",
    "how many workers": "faq",
    "share db connection pool": "how-to/share-resources",
    "upgrade to a new version": "how-to/upgrade",
    "call an LLM agent with approval": "how-to/pydantic-ai",
    "build an AI agent": "tutorial/ai-agent",
}


@pytest.fixture
def context(browser: Browser, address: str) -> Iterator[BrowserContext]:
    """A fresh reader. What a page complains of, or asks of another site, fails the test."""
    context = browser.new_context(base_url=address)
    context.set_default_timeout(PATIENCE)
    complaints = Complaints(context)
    asked: list[str] = []
    context.on("request", lambda request: asked.append(request.url))
    yield context
    found = complaints.found
    context.close()
    assert [url for url in asked if not url.startswith((address, "file:", "data:"))] == []
    assert found == []


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@widths
def test_a_reader_searches_and_follows_links(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto("/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Holdfast")
    open_menu(page, width)
    page.get_by_role("textbox", name="Search").fill("how do I retry a failed job")
    page.keyboard.press("Enter")
    page.locator("#search-results li a").first.click()
    expect(page).to_have_url(re.compile(r"/docs/how-to/retries-and-failures\.html"))
    open_menu(page, width)
    page.locator(".sidebar-tree a[href$='durable-steps.html']").click()
    expect(page).to_have_url(re.compile(r"/docs/how-to/durable-steps\.html"))
    page.locator("article p a.internal").first.click()
    expect(page).not_to_have_url(re.compile(r"/docs/how-to/durable-steps\.html$"))
    expect(page.get_by_role("heading", level=1)).to_be_visible()


def test_a_reader_chooses_light_or_dark(context: BrowserContext, page: Page) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto("/docs/reference/states.html")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    assert page.locator("a.diagram.only-dark").first.is_visible()
    page.emulate_media(color_scheme="light")
    assert page.evaluate(ground) != dark
    assert page.locator("a.diagram.only-light").first.is_visible()
    assert not page.locator("a.diagram.only-dark").first.is_visible()


@widths
def test_every_page_loads_and_none_is_wider_than_the_window(page: Page, site: Path, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    found = []
    for path in sorted(site.rglob("*.html")):
        page.goto(f"/{path.relative_to(site)}")
        if too_wide := wide(page):
            found.append(f"{path.relative_to(site)}: {too_wide}")
    assert found == []


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_answer_is_among_the_first_three_hits(page: Page, question: str) -> None:
    assert f"docs/{QUESTIONS[question]}.html" in hits(page, f"/search.html?q={quote(question)}")[:3]


def test_a_name_of_the_api_leads_to_its_description(page: Page) -> None:
    assert hits(page, "/search.html?q=enqueue_many")[0] == "api/holdfast.html#holdfast.App.enqueue_many"


def test_a_search_without_results_says_so(page: Page) -> None:
    page.goto("/search.html?q=xyzzyplugh")
    expect(page.locator("#search-results")).to_contain_text("did not match any documents")


def test_the_site_works_from_a_disk(page: Page, site: Path) -> None:
    assert hits(page, f"{site.as_uri()}/search.html?q=limit%20concurrency")[0] == "docs/how-to/limit-what-runs.html"
    page.locator("#search-results li a").first.click()
    expect(page).to_have_url(re.compile(r"/docs/how-to/limit-what-runs\.html"))


def test_the_files_for_language_models_name_and_hold_every_page(site: Path) -> None:
    listed, full = (site / "llms.txt").read_text("utf-8"), (site / "llms-full.txt").read_text("utf-8")
    links = re.findall(r"^- \[.+?\]\((.+?)\)", listed, re.MULTILINE)
    assert [link for link in links if not (site / link).is_file()] == []
    pages = [path for path in (ROOT / "docs").rglob("*.md") if "adr" not in path.parts]
    assert [path.name for path in pages if f"_sources/{path.relative_to(ROOT)}" not in links] == []
    assert [path.name for path in pages if path.read_text("utf-8").splitlines()[0] not in full] == []


def test_a_lost_page_a_broken_link_and_a_wrong_diagram_fail_the_build(tmp_path: Path) -> None:
    for name in ("docs", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for path in [*ROOT.glob("*.md"), ROOT / "examples/README.md", ROOT / "benchmarks/README.md"]:
        (tmp_path / path.relative_to(ROOT)).parent.mkdir(exist_ok=True)
        shutil.copy(path, tmp_path / path.relative_to(ROOT))
    (tmp_path / "docs/how-to/lost.md").write_text("# Lost\n\n[Nowhere](nothing.md), [no heading](flows.md#nothing)\n")
    (tmp_path / "docs/faults.md").write_text("# Faults\n\n```mermaid\nflowchart LR\n a[ --> b\n```\n")
    done = subprocess.run(
        [sys.executable, "-m", "tools.website"], cwd=tmp_path, capture_output=True, text=True, timeout=540
    )
    assert done.returncode != 0
    for page, complaint in (
        ("lost.md", "isn't included in any toctree"),
        ("lost.md", "nothing.md"),
        ("lost.md", "'nothing'"),
        ("faults.md", "Parse error"),
    ):
        assert re.search(f"{page}.*{re.escape(complaint)}", done.stderr), done.stderr


def hits(page: Page, search: str) -> list[str]:
    """Return where the results lead, the best first, each page once."""
    page.goto(search)
    expect(page.locator("#search-results")).to_contain_text("Search finished")
    found = [str(link.get_attribute("href")) for link in page.locator("#search-results li > a").all()]
    plain = [re.sub(r"\?[^#]*", "", link) for link in found]
    return list(dict.fromkeys(link if link.startswith("api/") else link.partition("#")[0] for link in plain))


def open_menu(page: Page, width: int) -> None:
    if width == PHONE:
        page.locator("label[for=__navigation]:visible").first.click()
