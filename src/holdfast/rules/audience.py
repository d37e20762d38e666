"""Finds the endpoints of an event without asking every one: a store may have thousands of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from ..model.event import Event
from ..model.webhook import CALLED_TAG, TASK, Endpoint
from .webhooks import hears, hears_kind

_Shelf = tuple[list[Endpoint], dict[str, list[Endpoint]]]
"""Endpoints for any tags, and the others by tag."""


class Audience:
    """Gives for each event those of its endpoints for which `hears` is true."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._called: Final[dict[str, Endpoint]] = {}
        self._of_tenant: Final[defaultdict[str, list[Endpoint]]] = defaultdict(list)
        self._shelves: Final[dict[tuple[str, str], _Shelf]] = {}
        for endpoint in endpoints:
            if endpoint.called:
                self._called[f"{CALLED_TAG}{endpoint.id}"] = endpoint
            else:
                self._of_tenant[endpoint.tenant].append(endpoint)

    def of(self, event: Event) -> list[Endpoint]:
        """Return the endpoints that are told of an event."""
        if event.task == TASK:
            return []
        found: dict[str, Endpoint] = {}
        for tenant in dict.fromkeys(("", event.tenant)):
            plain, tagged = self._shelf(tenant, event.kind)
            found |= {one.id: one for one in plain}
            found |= {one.id: one for tag in event.tags for one in tagged.get(tag, ())}
        named = (self._called.get(tag) for tag in event.tags)
        found |= {one.id: one for one in named if one is not None and hears(one, event)}
        return list(found.values())

    def _shelf(self, tenant: str, kind: str) -> _Shelf:
        if (shelf := self._shelves.get((tenant, kind))) is None:
            plain: list[Endpoint] = []
            tagged: defaultdict[str, list[Endpoint]] = defaultdict(list)
            for endpoint in self._of_tenant.get(tenant, ()):
                if not hears_kind(endpoint, kind):
                    continue
                if endpoint.tags is None:
                    plain.append(endpoint)
                for tag in endpoint.tags or ():
                    tagged[tag].append(endpoint)
            shelf = self._shelves[tenant, kind] = (plain, tagged)
        return shelf
