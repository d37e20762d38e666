"""The return values of `flow.add`: jobs that others can wait for and whose results they can take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NoReturn, TypeVar, cast, overload

from ..model.flows import Policy
from ..tasks.job import Job, Jobs
from ..values.references import Reference

R = TypeVar("R")
D = TypeVar("D")


class Part(Generic[R]):
    """One or several members that others wait for as one."""

    @property
    def members(self) -> tuple[Member[Any], ...]:
        """The members that must have ended for the part to have ended."""
        raise NotImplementedError

    @property
    def output(self) -> R:
        """A placeholder for the result, to be passed to another job of the flow."""
        raise NotImplementedError

    @property
    def succeeded(self) -> Upstream:
        """For `after`: once it has succeeded. A part by itself means the same."""
        return Upstream(self, "success")

    @property
    def failed(self) -> Upstream:
        """For `after`: once it has failed or expired. If it succeeds, the waiting job is skipped."""
        return Upstream(self, "failure")

    @property
    def ended(self) -> Upstream:
        """For `after`: once it has ended, in whatever way."""
        return Upstream(self, "any")


@dataclass(frozen=True, slots=True, eq=False)
class Upstream:
    """A part, and the end of it that counts."""

    part: Part[Any]
    policy: Policy

    def __bool__(self) -> NoReturn:
        raise TypeError("this is a condition for flow.add(…, after=…); its .state says how a job ended")


class Member(Job[R], Part[R]):
    """A job of a flow. Once the flow is stored it is a handle like any other: `state`, `wait`, `result`, `cancel`."""

    def __init__(self, flow: object, jobs: Jobs, id: str, name: str, task: str) -> None:
        super().__init__(jobs, id, task=task)
        self.flow: Final = flow
        self.name = name

    @property
    def members(self) -> tuple[Member[Any], ...]:
        return (self,)

    @property
    def output(self) -> R:
        return cast("R", Reference(self))

    def output_or(self, default: D) -> R | D:
        """The result, or `default` if the job does not succeed or is not waited for."""
        return cast("R", Reference(self, default=default))

    def __repr__(self) -> str:
        return f"<Member {self.name!r} {self.id}>"


class Members(Part[list[R]], Sequence[Member[R]]):
    """Members side by side, in the order they were given."""

    def __init__(self, members: Sequence[Member[R]]) -> None:
        self._members = tuple(members)

    @property
    def members(self) -> tuple[Member[Any], ...]:
        return self._members

    @property
    def output(self) -> list[R]:
        """The list of their results."""
        return [member.output for member in self._members]

    def outputs_or(self, default: D) -> list[R | D]:
        """The list of their results, with `default` for each that does not succeed or is not waited for."""
        return [member.output_or(default) for member in self._members]

    @overload
    def __getitem__(self, index: int) -> Member[R]: ...
    @overload
    def __getitem__(self, index: slice) -> Members[R]: ...
    def __getitem__(self, index: int | slice) -> Member[R] | Members[R]:
        return Members(self._members[index]) if isinstance(index, slice) else self._members[index]

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member[R]]:
        return iter(self._members)

    def __repr__(self) -> str:
        return f"<Members {[member.name for member in self._members]}>"


class Parts(Part[list[Any]]):
    """Parts side by side."""

    def __init__(self, parts: Sequence[Part[Any]]) -> None:
        self._parts = tuple(parts)

    @property
    def members(self) -> tuple[Member[Any], ...]:
        return tuple(member for part in self._parts for member in part.members)

    @property
    def output(self) -> list[Any]:
        """The list of their results."""
        return [part.output for part in self._parts]


class Subflow(Part[dict[str, Any]]):
    """A flow within a flow. It has ended when its sinks have."""

    def __init__(self, sinks: Mapping[str, Member[Any]]) -> None:
        self._sinks = dict(sinks)

    @property
    def members(self) -> tuple[Member[Any], ...]:
        return tuple(self._sinks.values())

    @property
    def output(self) -> dict[str, Any]:
        """The results of its sinks, by the names that they have in it."""
        return {name: member.output for name, member in self._sinks.items()}
