"""Who follows something: at most so many at once in this process, and each only as long as he is who he was.

Every answer that goes on for long takes a seat here, pages and streams alike. Whose token was revoked or whose session
ended is found out by one task for all of them, which asks once for each way in and not once for each stream.
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
"""Where the guard leaves them, in the scope of the request."""
_SHARE: Final = 2
_VOUCHES: Final = ("authorization", "cookie")


@dataclass(eq=False)
class Seat:
    """One that is taken. `over` is set when its caller is no longer who he was."""

    connection: HTTPConnection
    identity: Identity | None
    way_in: Hashable
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Seats:
    """`identify` says who a request comes from, `every` how many seconds later that is asked again."""

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
        # What the program around us goes by is its own matter: two requests with the same headers may differ.
        self._each_alone = each_alone
        self._taken: set[Seat] = set()
        self._asking: asyncio.Task[None] | None = None

    @property
    def taken(self) -> int:
        return len(self._taken)

    def take(self, scope: Scope, identity: Identity | None) -> Seat:
        """A seat for this request; refused where all are taken."""
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
        """One token cannot take the seats of all others; a machine's only user may take them all."""
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
            # A store that is away shows nothing to anybody; whoever follows it is asked when it is back.
            logger.debug("who follows a stream could not be asked: %s", error)
            return True
        except Exception as error:
            logger.log(logging.DEBUG if isinstance(error, Refused) else logging.ERROR, "a stream ends: %s", error)
            return False
