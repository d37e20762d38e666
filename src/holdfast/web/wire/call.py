"""A request as a handler sees it: who asks, and of what part of the store."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from ...app import App
from ...client.scoped import Scoped
from ...errors import BeyondScope
from ...model.access import Identity
from ..settings import WebSettings


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
        return self.app.scoped(self.identity.tenant) if self.identity.tenant else self.app

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
