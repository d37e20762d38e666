"""A request as a handler sees it: who asks, and of what part of the store."""

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
    """What every handler is given first."""

    app: App
    request: Request
    identity: Identity
    settings: WebSettings

    @property
    def client(self) -> App | Scoped:
        """The store as this caller may see it: all of it, or what is its tenant's."""
        return view_of(self.app, self.identity.tenant) if self.identity.tenant else self.app

    def whole(self, what: str) -> App:
        """The app, for what belongs to no tenant."""
        if self.identity.tenant:
            raise BeyondScope(what, self.identity.tenant)
        return self.app

    @property
    def actor(self) -> str:
        """The name under which actions are audited."""
        return self.identity.actor

    def may(self, scope: str) -> bool:
        """Whether this caller may do what needs that scope."""
        return self.identity.may(scope)


def view_of(app: App, tenant: str) -> Scoped:
    """A tenant's view, the same for all its callers: those who wait or follow share one look at the store."""
    views = _VIEWS.setdefault(app, OrderedDict())
    view = views.get(app._tenants.check(tenant))
    if view is None:
        view = views[tenant] = app.scoped(tenant)
        if len(views) > _MOST_VIEWS:
            views.popitem(last=False)
    return view
