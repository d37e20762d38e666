"""Renders the parts of the dashboard with made-up data, to look at them: `python tools/styleguide.py FOLDER`.

The pages are static; serve the folder (`python -m http.server -d FOLDER`), as scripts do not load from files.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from holdfast.model.access import ROLES, Identity
from holdfast.web.pages.templates import FILTERS, StoreName
from holdfast.web.wire.failures import Problem

WEB: Final = Path(__file__).parent.parent / "src" / "holdfast" / "web"
SAMPLES: Final = Path(__file__).parent / "styleguide"
SECOND: Final = 1_000_000
NOW: Final = 1_794_765_600 * SECOND
STATES: Final = ("ready", "blocked", "running", "suspended", "succeeded", "failed", "cancelled", "expired", "skipped")
TASKS: Final = ("mail.send_receipt", "images.resize", "reports.monthly", "billing.charge_card")
TRACEBACK: Final = """Traceback (most recent call last):
  File "/usr/lib/python3.12/asyncio/runners.py", line 194, in run
    return runner.run(main)
  File "/srv/shop/billing/tasks.py", line 41, in charge_card
    receipt = gateway.charge(card, amount)
              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
billing.gateway.CardDeclined: card ending 4242 was declined: insufficient_funds
"""


def main(folder: str) -> None:
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    shutil.copytree(WEB / "static", target / "static", dirs_exist_ok=True)
    environment = Environment(
        loader=FileSystemLoader([SAMPLES, WEB / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(FILTERS)
    for name, shows in pages():
        context = {**frame(), **shows}
        context["ui"] = environment.get_template("macros/kit.html").make_module(context)
        page = environment.get_template(str(context.pop("template", f"{name}.html"))).render(context)
        (target / f"{name}.html").write_text(page, "utf-8")
        print(target / f"{name}.html")


def frame() -> dict[str, Any]:
    """What the site gives to every page."""
    return {
        "url": lambda path="/": path,
        "static": lambda path: f"/static/{path}",
        "page": "",
        "here": "/",
        "store": StoreName("shop.db", "SQLite"),
        "user": Identity("ada", ROLES["operator"], via="session"),
        "version": "0.1.0",
        "flash": None,
        "now": NOW,
        "nav_counts": {"errors": 3, "approvals": 2},
    }


def pages() -> Iterator[tuple[str, dict[str, Any]]]:
    sample = {"states": STATES, "jobs": jobs(), "x": seconds(), "wave": wave, "traceback": TRACEBACK}
    yield "kit", {**sample, "flash": {"say": "12 jobs will be tried again.", "ok": True}}
    yield "figures", {**sample, "page": "overview"}
    yield "list", {**sample, "page": "jobs"}
    yield "detail", {**sample, "page": "jobs"}
    yield "nothing", {**sample, "page": "flows"}
    yield "login", {"next": "/", "wrong": True}
    for status, code, message in (
        (403, "forbidden", "this needs the scope 'operate'"),
        (404, "job_not_found", "there is no job 01KA5Y7Z2V"),
        (500, "internal", "the request could not be served"),
    ):
        yield f"error-{status}", {"template": "error.html", "status": status, "problem": Problem(code, message)}
    asked = {"title": "Delete this job?", "text": "It is removed for good.", "to": "/", "fields": [("id", "1")]}
    yield "confirm", {**asked, "go": "Delete", "reason": "required", "danger": True, "back": "/"}


def jobs() -> list[dict[str, Any]]:
    return [
        {
            "id": f"01KA5Y7Z2V4Q8XN0GT{i:02d}M3RWBC",
            "task": TASKS[i % len(TASKS)],
            "state": STATES[(i * 5 + i // 9) % len(STATES)],
            "queue": ("mail", "images", "default")[i % 3],
            "attempt": 1 + i % 3,
            "queued": NOW - (i * i * 13 + 4) * SECOND,
            "length": None if i % 5 == 0 else 37_000 * (i * i + 1),
        }
        for i in range(18)
    ]


def seconds() -> list[int]:
    return [NOW // SECOND - 3600 + 60 * i for i in range(60)]


def wave(size: float, phase: float = 0.0) -> list[float]:
    return [round(size * (1 + 0.4 * math.sin(i / 6 + phase) + 0.15 * math.sin(i * 1.7 + phase)), 3) for i in range(60)]


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "build/styleguide")
