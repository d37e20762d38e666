"""The templates, and the context that every page has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from starlette.requests import Request

from ...app import App
from ...clock import SYSTEM_CLOCK
from ...model.access import NOBODY, Identity
from ...version import VERSION
from .filters import FILTERS
from .mount import mount_of
from .storename import StoreName

FOLDER: Final = Path(__file__).parent.parent / "templates"
_LIVE: Final = "live_"
# Shared by all sites of a process: a template is compiled once.
_ENVIRONMENT: Final = Environment(
    loader=FileSystemLoader(FOLDER),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
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
