"""A limit on open streams and live pages in this process, and a repeated check of their callers.

Every long response takes a seat here, pages and streams alike. One task finds revoked tokens and ended sessions, with
one lookup per identity rather than one per stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import HTTPConnection
from starlette.types import Scope

from ...errors import QueueFull, StorageError
from ...model.access import Identity
from .failures import Refused

logger: Final = logging.getLogger("holdfast.web")

SEATS: Final = "holdfast.seats"
"""The key under which the guard stores the seats in the request's scope."""
_SHARE: Final = 2
_VOUCHES: Final = ("authorization", "cookie")


@dataclass(eq=False)
class Seat:
    """A taken seat. `over` is set when its caller is no longer authenticated."""

    connection: HTTPConnection
    identity: Identity | None
    way_in: Hashable
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Seats:
    """`identify` returns the identity of a request; `every` is the interval of the check in seconds."""

    def __init__(
        self,
        most: int,
        identify: Callable[[HTTPConnection], Awaitable[Identity | None]],
        *,
        every: float,
        each_alone: bool = False,
    ) -> None:
        self._most = most
        self._identify = identify
        self._every = every
        # A host application may use anything: two requests with the same headers may differ.
        self._each_alone = each_alone
        self._taken: set[Seat] = set()
        self._asking: asyncio.Task[None] | None = None

    @property
    def taken(self) -> int:
        return len(self._taken)

    def take(self, scope: Scope, identity: Identity | None) -> Seat:
        """Take a seat for this request; rejected if all are taken."""
        if len(self._taken) >= self._most or self._has_enough(identity):
            raise Refused(
                503, "too_many_viewers", "too many pages and streams are open; try again later", {"retry-after": "30"}
            )
        connection = HTTPConnection(scope)
        seat = Seat(connection, identity, self._way_in(connection))
        self._taken.add(seat)
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_again(), name="holdfast open streams")
        return seat

    def leave(self, seat: Seat) -> None:
        self._taken.discard(seat)
        if not self._taken and self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def _has_enough(self, identity: Identity | None) -> bool:
        """Limit the seats of one token, so that it cannot take all; a single local user may take them all."""
        if identity is None or identity.token_id is None:
            return False
        return sum(seat.identity == identity for seat in self._taken) >= max(1, self._most // _SHARE)

    def _way_in(self, connection: HTTPConnection) -> Hashable:
        if self._each_alone:
            return object()
        return tuple(connection.headers.get(name) for name in _VOUCHES)

    async def _ask_again(self) -> None:
        while self._taken:
            await asyncio.sleep(self._every)
            ways_in: dict[Hashable, list[Seat]] = {}
            for seat in self._taken:
                ways_in.setdefault((seat.way_in, seat.identity), []).append(seat)
            for seats in ways_in.values():
                if not await self._is_still(seats[0]):
                    for seat in seats:
                        seat.over.set()

    async def _is_still(self, seat: Seat) -> bool:
        try:
            return await self._identify(seat.connection) == seat.identity
        except (StorageError, QueueFull) as error:
            # An unavailable store shows nothing to anyone; callers are checked when it is back.
            logger.debug("the callers of open streams could not be checked: %s", error)
            return True
        except Exception as error:
            logger.log(logging.DEBUG if isinstance(error, Refused) else logging.ERROR, "closing a stream: %s", error)
            return False
