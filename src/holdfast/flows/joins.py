"""Dependencies of a member: `after=a`, `after=[a, b.failed]`, `after=any_of(a, b)`, `after=quorum(2, a, b, c)`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from ..errors import DuplicateEdge, InvalidInput
from ..model.flows import Edge, Join, Mode, Policy, Rest
from ..values.references import MISSING, Use
from .members import Member, Part, Upstream

Awaited: TypeAlias = "Part[Any] | Upstream"
"""A member, members, or a condition on them such as `a.failed`."""
AfterLike: TypeAlias = "After | Awaited | Iterable[Awaited] | None"


@dataclass(frozen=True, slots=True)
class After:
    """Upstreams, and the number of them that must end as required."""

    upstreams: tuple[tuple[Member[Any], Policy], ...] = ()
    mode: Mode = "all"
    needed: int = 0
    rest: Rest = "run"

    @property
    def join(self) -> Join:
        return Join(self.mode, self.needed, self.rest)


NOTHING: Final = After()


def all_of(*upstreams: Awaited | Iterable[Awaited]) -> After:
    """Wait for all of them. If one can no longer end as required, the waiting job is skipped."""
    return After(_together(upstreams))


def any_of(*upstreams: Awaited | Iterable[Awaited], rest: Rest = "run") -> After:
    """Wait for the first of them. `rest="cancel"` then cancels the others, unless another job needs them."""
    return _some("any", 1, upstreams, rest)


def quorum(needed: int, *upstreams: Awaited | Iterable[Awaited], rest: Rest = "run") -> After:
    """Wait for `needed` of them. `rest="cancel"` then cancels the others, unless another job needs them."""
    return _some("quorum", needed, upstreams, rest)


def after_of(given: AfterLike) -> After:
    """Return the dependencies that `after=` was given."""
    if given is None:
        return NOTHING
    if isinstance(given, After):
        return given
    return all_of(given)


def with_inputs(name: str, after: After, uses: Sequence[Use]) -> After:
    """Add the jobs whose results are among a job's arguments to its dependencies."""
    awaited = dict(after.upstreams)
    for use in uses:
        source, needs_success = use.reference.source, use.reference.default is MISSING
        assert isinstance(source, Member)
        policy = awaited.get(source)
        if policy is None and after.mode != "all":
            raise InvalidInput(f"{name!r} takes {use.reference!r} but does not wait for it; add it to its after=")
        if policy is None:
            awaited[source] = "success" if needs_success else "any"
        elif needs_success and (policy != "success" or after.mode != "all"):
            raise InvalidInput(
                f"{name!r} may start without {use.reference!r}; say what it gets then: {source.name}.output_or(None)"
            )
    return replace(after, upstreams=tuple(awaited.items()))


def edges_to(member: Member[Any], after: After) -> Iterator[Edge]:
    return (Edge(upstream.id, member.id, policy) for upstream, policy in after.upstreams)


def _some(mode: Mode, needed: int, given: Sequence[Awaited | Iterable[Awaited]], rest: Rest) -> After:
    upstreams = _together(given)
    if not upstreams:
        raise InvalidInput(f"{mode} of nothing can never be; name what to wait for")
    if type(needed) is not int or not 1 <= needed <= len(upstreams):
        raise InvalidInput(f"{needed!r} of {len(upstreams)} upstreams can never be; ask for 1 to {len(upstreams)}")
    if rest not in ("cancel", "run"):
        raise InvalidInput(f"rest is {rest!r}; use 'cancel' or 'run'")
    return After(upstreams, mode, needed, rest)


def _together(given: Iterable[Awaited | Iterable[Awaited]]) -> tuple[tuple[Member[Any], Policy], ...]:
    found: dict[Member[Any], Policy] = {}
    for member, policy in _each(given):
        if found.setdefault(member, policy) != policy:
            raise DuplicateEdge(f"{member.name!r} is named twice, with different ends; name it once")
    return tuple(found.items())


def _each(given: Iterable[Any]) -> Iterator[tuple[Member[Any], Policy]]:
    for item in given:
        if isinstance(item, Part):
            yield from _each([item.succeeded])
        elif isinstance(item, Upstream):
            for member in item.part.members:
                yield member, item.policy
        elif isinstance(item, After):
            raise InvalidInput("any_of and quorum cannot be nested; put a job of its own between them")
        elif isinstance(item, Iterable) and not isinstance(item, str):
            yield from _each(item)
        else:
            raise TypeError(f"after= takes what flow.add gave, such as a, a.failed or [a, b], not {item!r}")
