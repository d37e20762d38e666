"""Looking at pages as a careful reader would: what the browser complains of, axe-core's rules, and widths."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    expect,
    sync_playwright,
)

AXE: Final = Path(__file__).parent / "vendor" / "axe.min.js"
CHROMIUM: Final = ("chromium", "google-chrome")
PATIENCE: Final = 30_000
PHONE: Final = 390
DESK: Final = 1280

# A console message comes too, but only the event is promised.
_POLICE: Final = """document.addEventListener("securitypolicyviolation", (event) =>
  console.error("policy", event.violatedDirective, event.blockedURI, event.sourceFile, event.sample))"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium. Without it the tests fail: `make test-all` installs it."""
    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    assert path, "no Chromium found; on Debian: apt-get install chromium"
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Complaints:
    """What the pages of a context complain of, from now on."""

    def __init__(self, context: BrowserContext) -> None:
        self._console: list[ConsoleMessage] = []
        self._others: list[str] = []
        self._documents: set[str] = set()
        context.add_init_script(_POLICE)
        context.on("console", lambda message: self._console.append(message))
        context.on("weberror", lambda error: self._others.append(f"error: {error.error}"))
        context.on("request", self._ask)
        context.on("requestfailed", self._fail)
        context.on("dialog", self._open)

    @property
    def found(self) -> list[str]:
        return [
            *self._others,
            *(f"{one.type}: {one.text} {one.location}" for one in self._console if self._counts(one)),
        ]

    def _counts(self, message: ConsoleMessage) -> bool:
        # A page that refuses something is an answer like any other; what it lacks is not.
        is_answer = "Failed to load resource" in message.text and message.location["url"] in self._documents
        return message.type in ("error", "warning") and not is_answer

    def _ask(self, request: Request) -> None:
        if request.is_navigation_request():
            self._documents.add(request.url)

    def _fail(self, request: Request) -> None:
        # Leaving a page ends what it follows; that is no failure.
        if "ERR_ABORTED" not in (why := request.failure or ""):
            self._others.append(f"failed: {request.url} {why}")

    def _open(self, dialog: Dialog) -> None:
        self._others.append(f"dialog: {dialog.message}")
        dialog.dismiss()


def wide(page: Page) -> str:
    """What is wider than the page, in words; empty if nothing is."""
    width = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    return "" if width[0] <= width[1] else f"{width[0]} px of {width[1]}: {page.evaluate(_WIDE)}"


_WIDE: Final = """[...document.querySelectorAll("body *")]
  .filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
  .slice(-3).map((e) => e.outerHTML.slice(0, 160))"""


def cut(page: Page) -> list[str]:
    """Tables that do not show all their columns."""
    found: list[str] = page.evaluate(_CUT)
    return found


_CUT: Final = """[...document.querySelectorAll(".table-wrap")].filter((e) => e.scrollWidth > e.clientWidth + 1)
  .map((e) => "cut: " + (e.ariaLabel ?? e.className) + " " + e.scrollWidth + " px of " + e.clientWidth)"""


class Reader:
    """axe-core in a page. It comes by the debugger, since the site's policy lets no foreign script in."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._evaluate(AXE.read_text() + "; undefined")

    def problems(self, only: Literal["everything", "colours"] = "everything") -> list[str]:
        """What is serious or worse. Of a page in other colours only the colours are looked at."""
        run = {"resultTypes": ["violations"], **({"runOnly": ["color-contrast"]} if only == "colours" else {})}
        found = self._evaluate(f"axe.run({json.dumps(run)}).then((r) => JSON.stringify(r.violations))")
        return [
            f"{one['id']}: {one['help']}: {node['html'][:200]} {node['target']}"
            for one in json.loads(found)
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"][:3]
        ]

    def _evaluate(self, expression: str) -> Any:
        answer = self._session.send("Runtime.evaluate", {"expression": expression, "awaitPromise": True})
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")
