"""A request as a handler sees it: the caller, and the part of the store it may use."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from starlette.requests import Request

from ...app import App
from ...client.tenants import Scoped
from ...errors import BeyondScope
from ...model.access import Identity
from ..settings import WebSettings

_VIEWS: Final[WeakKeyDictionary[App, OrderedDict[str, Scoped]]] = WeakKeyDictionary()
_MOST_VIEWS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Call:
    """The first argument of every handler."""

    app: App
    request: Request
    identity: Identity
    settings: WebSettings

    @property
    def client(self) -> App | Scoped:
        """The store as this caller may see it: all of it, or its tenant's part."""
        return view_of(self.app, self.identity.tenant) if self.identity.tenant else self.app

    def whole(self, what: str) -> App:
        """The app, for data that belongs to no tenant."""
        if self.identity.tenant:
            raise BeyondScope(what, self.identity.tenant)
        return self.app

    @property
    def actor(self) -> str:
        """The name under which actions are audited."""
        return self.identity.actor

    def may(self, scope: str) -> bool:
        """Return True if the caller has that scope."""
        return self.identity.may(scope)


def view_of(app: App, tenant: str) -> Scoped:
    """Return a tenant's view, shared by all its callers, so that waits and streams share their queries."""
    views = _VIEWS.setdefault(app, OrderedDict())
    view = views.get(app._tenants.check(tenant))
    if view is None:
        view = views[tenant] = app.scoped(tenant)
        if len(views) > _MOST_VIEWS:
            views.popitem(last=False)
    return view
