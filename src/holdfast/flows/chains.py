"""Chains and groups, written as expressions: `flow.add(extract.job("eu") | clean | group(load, index))`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, TypeVarTuple, overload

from ..errors import InvalidInput

if TYPE_CHECKING:
    from ..tasks.task import JobRequest

R = TypeVar("R")
T = TypeVar("T")
A_contra = TypeVar("A_contra", contravariant=True)
B_co = TypeVar("B_co")
Ts = TypeVarTuple("Ts")


class Takes(Protocol[A_contra, B_co]):
    """A task that can be called with one argument: the result of the previous link of a chain."""

    def job(self, value: A_contra, /) -> JobRequest[B_co]: ...


class TakesAll(Protocol[*Ts, B_co]):
    """A task that can be called with these arguments, in their order."""

    def job(self, *values: *Ts) -> JobRequest[B_co]: ...


Link: TypeAlias = "JobRequest[Any] | Takes[Any, Any] | Chain[Any] | Group[Any]"


@dataclass(frozen=True, slots=True)
class Chain(Generic[R]):
    """Jobs in sequence: each waits for the success of the one before it."""

    links: tuple[Link, ...]

    @overload
    def __or__(self, then: Takes[R, T]) -> Chain[T]: ...
    @overload
    def __or__(self, then: JobRequest[T] | Chain[T]) -> Chain[T]: ...
    @overload
    def __or__(self, then: Group[T]) -> Chain[list[T]]: ...
    def __or__(self, then: Any) -> Chain[Any]:
        """Return the chain with one more link."""
        return chain_of(self, then)


@dataclass(frozen=True, slots=True)
class Group(Generic[R]):
    """Jobs in parallel. The link after a group in a chain gets the list of its results."""

    links: tuple[Link, ...]

    @overload
    def __or__(self, then: Takes[list[R], T]) -> Chain[T]: ...
    @overload
    def __or__(self, then: JobRequest[T] | Chain[T]) -> Chain[T]: ...
    @overload
    def __or__(self, then: Group[T]) -> Chain[list[T]]: ...
    def __or__(self, then: Any) -> Chain[Any]:
        """Return a chain that begins with this group."""
        return chain_of(self, then)


@overload
def group(*links: JobRequest[R] | Chain[R]) -> Group[R]: ...
@overload
def group(*links: Takes[Any, R]) -> Group[R]: ...
@overload
def group(*links: Link) -> Group[Any]: ...
def group(*links: Link) -> Group[Any]:
    """Return jobs to run in parallel. In a chain, tasks among them each take the result of the previous link."""
    if not links:
        raise InvalidInput("a group needs at least one job; leave it out if there is nothing to run")
    return Group(tuple(_checked(link) for link in links))


def chain_of(*links: Any) -> Chain[Any]:
    """Return a chain, with nested chains flattened."""
    flat: list[Link] = []
    for link in links:
        flat += link.links if isinstance(link, Chain) else (_checked(link),)
    return Chain(tuple(flat))


def takes_a_result(link: object) -> bool:
    """Return True for a task, which is called with the result of the previous link."""
    return hasattr(link, "job") and hasattr(link, "signature")


def is_request(link: object) -> bool:
    return hasattr(link, "payload") and hasattr(link, "uses")


def _checked(link: Any) -> Link:
    if isinstance(link, (Chain, Group)) or takes_a_result(link) or is_request(link):
        return link  # type: ignore[no-any-return]
    raise TypeError(f"a chain is made of jobs, tasks and groups, not of {link!r}; write task.job(…) or a task")


def first_needs_a_result(links: Sequence[Link]) -> bool:
    """Return True if a chain begins with a task, which would need a result."""
    first = links[0]
    return any(map(takes_a_result, first.links)) if isinstance(first, Group) else takes_a_result(first)
