"""Pictures of every page of the dashboard, light and dark, from the studio: `python -m tools.screenshots FOLDER`.

With `--docs` it makes the pictures of the documentation instead, in docs/images. Needs Chromium, and reads best with
the fonts Inter and JetBrains Mono installed.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

if TYPE_CHECKING:
    import holdfast
    from holdfast.tasks import JobRequest

IMAGES: Final = Path(__file__).parent.parent / "docs" / "images"
CHROMIUM: Final = ("chromium", "google-chrome")
LIVED: Final = 40.0
WIDTH: Final = 1280
THEMES: Final = ("light", "dark")
DOCS: Final = (
    ("overview", "/"),
    ("flow", "{flow}"),
    ("timeline", "{approval}?tab=steps"),
    ("errors", "/errors"),
    ("approvals", "/approvals"),
    ("limits", "/limits"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("screenshots"))
    parser.add_argument("--docs", action="store_true")
    given = parser.parse_args()
    with studio() as (app, address), browsing() as browser:
        if given.docs:
            for name, path in DOCS:
                for theme in THEMES:
                    keep_busy(crowd=name == "limits")
                    to = IMAGES / f"{name}-{theme}.png"
                    take(browser, address + path.format(**things(app)), theme, to, full=False)
                    shrink(to)
        else:
            known = things(app)
            for theme in THEMES:
                for name, path in places(browser, address, known):
                    take(browser, address + path, theme, given.folder / f"{name}-{theme}.png")


@contextmanager
def studio() -> Iterator[tuple[holdfast.App, str]]:
    """The studio at work, and the address of its dashboard."""
    with tempfile.TemporaryDirectory(prefix="holdfast-pictures-") as folder:
        # The studio's app reads it when it is imported.
        os.environ["HOLDFAST_STORE"] = str(Path(folder) / "studio.db")
        from examples.studio.opening import living_studio
        from examples.studio.tasks import app

        with living_studio():
            address = serve(app)
            time.sleep(LIVED)
            yield app, address


def keep_busy(*, crowd: bool) -> None:
    """Give the studio a flow and more jobs than its limits let run at once; or a crowd of them."""
    from examples.studio import tasks

    tasks.start_flow("regions")
    tasks.app.enqueue_many([tasks.thumbnail.job(f"IMG_{n}.jpg") for n in range(40)])
    tasks.app.enqueue_many([tasks.charge.options(tags=["invoice"]).job(n, 4_200) for n in range(12)])
    if crowd:
        tasks.app.breakers.trip("partner")
        tasks.app.enqueue_many([tasks.thumbnail.job(f"IMG_{n}.jpg") for n in range(200)])
        tasks.app.enqueue_many(_of("acme", 60) + _of("globex", 20))


def _of(tenant: str, n: int) -> list[JobRequest[Any]]:
    """Jobs under the tenant's own limit."""
    from examples.studio import tasks

    one = tasks.welcome.options(tenant=tenant, concurrency_key=tenant, concurrency=2)
    return [one.job(user) for user in range(n)]


def serve(app: holdfast.App) -> str:
    from holdfast.web.serving import serve, settings_for

    settings = settings_for("127.0.0.1", auth=None, hosts=(), behind_proxy=False, any_task=False)
    told: queue.Queue[str] = queue.Queue()
    run = lambda: serve(app, settings, "127.0.0.1", 0, behind_proxy=False, ready=lambda at, _: told.put(at))  # noqa: E731
    threading.Thread(target=run, daemon=True).start()
    return told.get(timeout=20)


def things(app: holdfast.App) -> dict[str, str]:
    """The pages about one thing."""
    from holdfast.model import JobFilter
    from holdfast.model.jobs import JobState

    def job(task: str, *states: str) -> str:
        found = (one for state in states for one in app.jobs.find(JobFilter(task=task, state=JobState(state), limit=1)))
        return f"/jobs/{next(found).id}"

    return {
        "report": job("report.write", "running", "suspended", "succeeded"),
        "approval": job("report.write", "suspended", "running", "succeeded"),
        "failed": job("billing.charge", "failed"),
        "flow": f"/flows/{app.flows.find()[0].id}",
        "error": f"/errors/{app.errors.list()[0].fingerprint}",
    }


def places(browser: Browser, address: str, known: dict[str, str]) -> list[tuple[str, str]]:
    """All that the navigation leads to, and one page of each kind of thing."""
    page = browser.new_page()
    page.goto(address)
    links = page.locator(".side a[data-go]")
    listed = [str(links.nth(n).get_attribute("href")) for n in range(links.count())]
    page.close()
    tabs = [(f"job-{tab}", f"{known['approval']}?tab={tab}") for tab in ("overview", "steps", "signals", "again")]
    return [
        *((path.strip("/") or "overview", path) for path in listed),
        *tabs,
        ("job-stream", f"{known['report']}?tab=stream"),
        ("job-failed", known["failed"]),
        ("job-attempts", f"{known['failed']}?tab=attempts"),
        ("jobs-failed", "/jobs?state=failed"),
        ("flow", known["flow"]),
        ("error", known["error"]),
        ("queue", "/queues/mail"),
        ("schedule", "/schedules/usage"),
        ("login", "/login"),
    ]


@contextmanager
def browsing() -> Iterator[Browser]:
    path = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def take(browser: Browser, url: str, theme: str, to: Path, *, full: bool = True) -> None:
    page: Page = browser.new_page(
        viewport={"width": WIDTH, "height": 800}, color_scheme="dark" if theme == "dark" else "light"
    )
    page.goto(url)
    # Until what follows has come once, so that charts are drawn and ages count.
    page.wait_for_timeout(1_500)
    page.reload()
    page.wait_for_timeout(500)
    to.parent.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=to, full_page=full)
    page.close()
    print(to, f"{to.stat().st_size / 1000:.0f} kB")


def shrink(picture: Path) -> None:
    """Reduce a picture to 256 colours, a third of its size."""
    with Image.open(picture) as drawn:
        reduced = drawn.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    reduced.save(picture, optimize=True)
    print(picture, f"{picture.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
