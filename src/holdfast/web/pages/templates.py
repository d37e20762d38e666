"""The templates, their filters, and the context that every page has."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from jinja2.ext import Extension
from starlette.requests import Request
from starlette.types import Scope

from ...app import App
from ...clock import SYSTEM_CLOCK
from ...model.access import NOBODY, Identity
from ...model.values import instant_of, micros_of
from ...rules.durations import said
from ...runtime.opening import database_file, dialect_of
from ...version import VERSION


def iso(at: datetime | int | None) -> str:
    """Format a time with microseconds, for machines and tooltips."""
    shown = instant_of(at) if isinstance(at, int) else at
    return "" if shown is None else shown.isoformat(timespec="microseconds").replace("+00:00", "Z")


def clock(at: datetime | int | None) -> str:
    """Format a time for readers without script: UTC, to the second."""
    shown = instant_of(at) if isinstance(at, int) else at
    return "" if shown is None else shown.strftime("%Y-%m-%d %H:%M:%S UTC")


def duration(micros: float | None) -> str:
    """Format a duration; empty for None."""
    return "" if micros is None else said(micros)


def number(value: float | None) -> str:
    """Format a count with thin separators; integers keep all digits."""
    if value is None:
        return "–"
    return f"{value:,}".replace(",", "\u202f") if isinstance(value, int) else f"{value:,.4g}"


def ago(at: datetime | int | None, now: int) -> str:
    """Format the distance from now, in the past or the future."""
    if at is None:
        return ""
    away = now - (at if isinstance(at, int) else micros_of(at))
    return f"{duration(away)} ago" if away >= 0 else f"in {duration(-away)}"


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "micros": micros_of,
    "iso": iso,
    "clock": clock,
    "duration": duration,
    "number": number,
    "ago": ago,
}


MOUNT: Final = "holdfast.mount"


def mount_of(scope: Scope) -> str:
    """Return the prefix, such as "/jobs"; "" at the root."""
    return str(scope.get(MOUNT, scope.get("root_path", ""))).rstrip("/")


def job_path(job_id: str, *more: str) -> str:
    """Return the path of a job's page, or of a page below it."""
    return _path("jobs", job_id, *more)


def error_path(fingerprint: str) -> str:
    """Return the path of an error group's page."""
    return _path("errors", fingerprint)


def queue_path(name: str, *more: str) -> str:
    """Return the path of a queue's page, or of a page below it."""
    return _path("queues", name, *more)


def below(*parts: str) -> str:
    """Return the path made of these segments."""
    return _path(*parts)


def _path(*parts: str) -> str:
    return "/" + "/".join(quote(part, safe="") for part in parts)


@dataclass(frozen=True, slots=True)
class StoreName:
    """Return its short name and the kind of database."""

    name: str
    backend: str

    @classmethod
    def of(cls, app: App) -> Self:
        backend = dialect_of(app.config)
        if backend == "postgres":
            return cls(urlsplit(app.config.store).path.lstrip("/") or "postgres", "Postgres")
        file = database_file(app.config)
        return cls("in memory" if file is None else Path(file).name, "SQLite")


CSRF: Final = "holdfast.csrf"
"""The key of the name and the value of the field that a host application requires in forms, in the request's scope."""
_POST_FORM: Final = re.compile(r'<form\b[^>]*\bmethod="post"(?:{{.*?}}|{%.*?%}|[^>{])*>')


class FormField(Extension):
    """Puts the host application's field into each form that changes something."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        field = '{% if csrf %}<input type="hidden" name="{{ csrf[0] }}" value="{{ csrf[1] }}">{% endif %}'
        return _POST_FORM.sub(lambda form: form[0] + field, source)


FOLDER: Final = Path(__file__).parent.parent / "templates"
_LIVE: Final = "live_"
# Shared by all sites of a process: a template is compiled once.
_ENVIRONMENT: Final = Environment(
    loader=FileSystemLoader(FOLDER),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    extensions=[FormField],
)
_ENVIRONMENT.filters.update(FILTERS)


class Templates:
    """Renders pages. Everything is escaped; an undefined value is an error, not an empty text."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def render(
        self,
        name: str,
        request: Request,
        identity: Identity | None,
        shows: Mapping[str, Any],
        *,
        flash: object = None,
    ) -> str:
        """Render a whole page."""
        return self._template(name).render(self._context(request, identity, shows, flash))

    def parts(self, name: str, request: Request, identity: Identity, shows: Mapping[str, Any]) -> dict[str, str]:
        """Render the live parts of a page by name: its blocks `live_…`."""
        template = self._template(name)
        context = template.new_context(self._context(request, identity, shows, None))
        return {
            block.removeprefix(_LIVE): "".join(render(context))
            for block, render in template.blocks.items()
            if block.startswith(_LIVE)
        }

    def _template(self, name: str) -> Template:
        return _ENVIRONMENT.get_template(name)

    def _context(
        self, request: Request, identity: Identity | None, shows: Mapping[str, Any], flash: object
    ) -> dict[str, Any]:
        mount = mount_of(request.scope)
        context: dict[str, Any] = {
            "url": lambda path="/": mount + path,
            "static": lambda path: f"{mount}/static/{path}?v={VERSION}",
            "store": StoreName.of(self._app),
            "user": identity or NOBODY,
            "csrf": request.scope.get(CSRF),
            "version": VERSION,
            "flash": flash,
            "here": _here(request, mount),
            "now": (self._app._clock or SYSTEM_CLOCK).now(),
            "page": "",
            **shows,
        }
        # A global rather than an import in each template: a live block is rendered alone, where no import has run.
        context["ui"] = self._template("macros/kit.html").make_module(context)
        return context


def _here(request: Request, mount: str) -> str:
    """Return the page's own URL. The response to a form has none: it can be neither opened nor followed."""
    if request.method not in ("GET", "HEAD"):
        return ""
    return request.url.path[len(mount) :] + (f"?{request.url.query}" if request.url.query else "")
