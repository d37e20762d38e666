"""What the turns ask of the worker whose jobs they claim and record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...model.jobs import Claimed
from ...model.limits import ActiveLimits
from ...storage.ops.routing.affinities import Routing


class ClaimTarget(Protocol):
    """What the turns ask of the worker."""

    @property
    def id(self) -> str: ...

    @property
    def standing(self) -> ActiveLimits:
        """The limits that apply to jobs without being named by them."""
        ...

    def room(self) -> Capacity | None:
        """What may be claimed now; None if nothing."""
        ...

    def dispatch(self, jobs: Sequence[Claimed], claim: str) -> None:
        """Start what was claimed."""
        ...

    def others_wait(self, they_do: bool) -> None:
        """Whether jobs of affinities wait for which there is no place now."""
        ...


class Capacity:
    """How many jobs fit, of which kind, from which routes."""

    __slots__ = ("alone", "n", "parts", "routes", "routing", "suspects")

    def __init__(
        self,
        n: int,
        routes: str,
        suspects: int = 0,
        alone: bool = False,
        parts: tuple[tuple[str, int], ...] = (),
        routing: Routing | None = None,
    ) -> None:
        self.n = n
        self.routes = routes
        self.suspects = suspects
        self.alone = alone
        self.parts = parts
        self.routing = routing

    @property
    def is_plain(self) -> bool:
        return not self.alone and not self.parts and self.routing is None
