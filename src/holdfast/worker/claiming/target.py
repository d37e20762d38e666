"""The claimer's interface to its worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...model.jobs import Claimed
from ...model.limits import ActiveLimits
from ...storage.ops.routing.affinities import Routing


class ClaimTarget(Protocol):
    """The worker whose jobs the claimer claims and records."""

    @property
    def id(self) -> str: ...

    @property
    def standing(self) -> ActiveLimits:
        """Limits that apply to jobs without being named by them."""
        ...

    def room(self) -> Capacity | None:
        """Return the capacity to claim for now; None if there is none."""
        ...

    def dispatch(self, jobs: Sequence[Claimed], claim: str) -> None:
        """Start the claimed jobs."""
        ...

    def others_wait(self, they_do: bool) -> None:
        """Note whether jobs wait whose affinity has no place here now."""
        ...


class Capacity:
    """Number and kind of jobs that fit, and the routes to claim from."""

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
