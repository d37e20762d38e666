"""Build a graph of jobs in memory, in order. Nothing is stored or run here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar, TypeVarTuple, Unpack, cast, overload

from ..errors import DuplicateMember, FlowTooLarge, ForeignMember, InvalidInput, SelfEdge
from ..ids import ids
from ..model.flows import Policy
from ..names import check_id, check_name
from ..rules.flows import MAX_MEMBERS, check_policy
from ..tasks.job import Jobs
from ..tasks.task import JobRequest, Task
from .chains import Chain, Group, Link, Takes, TakesAll, first_needs_a_result, is_request
from .joins import After, AfterLike, after_of, with_inputs
from .members import Member, Members, Part, Parts, Subflow

A = TypeVar("A")
P = ParamSpec("P")
R = TypeVar("R")
Ts = TypeVarTuple("Ts")


@dataclass(slots=True)
class Node:
    """A future member: its job and its dependencies."""

    member: Member[Any]
    request: JobRequest[Any]
    after: After


class Builder:
    """Members by name, each with its dependencies."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._nodes: dict[str, Node] = {}
        self._taken = Counter[tuple[str, bool]]()
        self._parent: Builder | None = None
        self.closed = False

    @property
    def nodes(self) -> list[Node]:
        return list(self._nodes.values())

    @overload
    def add(self, job: JobRequest[R], /, *, after: AfterLike = None, name: str | None = None) -> Member[R]: ...
    @overload
    def add(self, job: Chain[R], /, *, after: AfterLike = None, name: str | None = None) -> Part[R]: ...
    @overload
    def add(self, job: Group[R], /, *, after: AfterLike = None, name: str | None = None) -> Part[list[R]]: ...
    @overload
    def add(self, job: Builder, /, *, after: AfterLike = None, name: str | None = None) -> Subflow: ...
    @overload
    def add(self, job: Task[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Member[R]: ...
    # Type checkers cannot combine these keywords with a task's own, so its arguments are not checked here.
    @overload
    def add(
        self, job: Task[..., R], /, *args: Any, after: AfterLike, name: str | None = None, **kwargs: Any
    ) -> Member[R]: ...
    @overload
    def add(self, job: Task[..., R], /, *args: Any, after: AfterLike = None, name: str, **kwargs: Any) -> Member[R]: ...
    def add(  # type: ignore[misc]
        self, job: Any, /, *args: Any, after: AfterLike = None, name: str | None = None, **kwargs: Any
    ) -> Any:
        """Add a job, a chain, a group or a whole flow; others can wait for what is returned and take its `output`.

        `flow.add(task, 1, b=2)` is the same as `flow.add(task.job(1, b=2))`. `after` says what the member waits for,
        besides the results among its arguments. `name` must be unique in the flow; its default is the task's name with
        a number. The name of a chain, group or flow is a prefix of its members' names.
        """
        if isinstance(job, Task):
            own = {"after": after, "name": name}
            job = _called(job, args, kwargs, [option for option, value in own.items() if value is not None])
        elif args or kwargs:
            raise TypeError(f"flow.add takes arguments for a task, not for {job!r}")
        self._require_open()
        awaited = after_of(after)
        if isinstance(job, JobRequest):
            return self._add(job, awaited, name or self._fresh(job.task.name))
        prefix = f"{name}/" if name else ""
        if isinstance(job, Builder):
            return self._embed(job, awaited, name)
        if isinstance(job, Chain):
            return self._add_chain(job.links, awaited, prefix)
        if isinstance(job, Group):
            return self._add_chain((job,), awaited, prefix)
        raise TypeError(f"flow.add takes a task or what task.job(…) makes, a chain, a group or a flow, not {job!r}")

    def map(
        self,
        task: Takes[A, R] | Callable[[A], JobRequest[R]],
        items: Iterable[A],
        *,
        after: AfterLike = None,
        name: str | None = None,
    ) -> Members[R]:
        """Add a job for each item, in parallel. `task` takes the item, or is a function that makes a job of it."""
        make = cast("Callable[[A], JobRequest[R]]", getattr(task, "job", task))
        if not isinstance(items, Iterable):
            raise TypeError(f"flow.map takes several items, not {items!r}; write flow.map(task, [{items!r}])")
        return self._add_each([make(item) for item in items], after, name)

    def starmap(
        self,
        task: TakesAll[*Ts, R] | Callable[[Unpack[Ts]], JobRequest[R]],
        items: Iterable[tuple[*Ts]],
        *,
        after: AfterLike = None,
        name: str | None = None,
    ) -> Members[R]:
        """Add a job for each tuple of arguments, in parallel: `flow.starmap(task, [(1, 2), (3, 4)])`."""
        make = cast("Callable[..., JobRequest[R]]", getattr(task, "job", task))
        arguments: list[Any] = list(items)
        for item in arguments:
            if not isinstance(item, Sequence) or isinstance(item, (str, bytes)):
                raise TypeError(
                    f"flow.starmap takes tuples of arguments, not {item!r}; write flow.map for one argument"
                )
        return self._add_each([make(*item) for item in arguments], after, name)

    def link(self, upstream: Member[Any], downstream: Member[Any], *, on: Policy = "success") -> None:
        """Make one member wait for another that was added after it."""
        self._require_open()
        node = self._nodes.get(downstream.name)
        if node is None or node.member is not downstream:
            raise ForeignMember(f"{downstream!r} was not added to this flow")
        if upstream is downstream:
            raise SelfEdge(f"{upstream.name!r} cannot wait for itself")
        if node.after.mode != "all":
            raise InvalidInput(f"{downstream.name!r} waits for some of several; name all of them in its after=")
        self._require_own([upstream])
        after = After((*((u, p) for u, p in node.after.upstreams if u is not upstream), (upstream, check_policy(on))))
        node.after = with_inputs(downstream.name, after, node.request.uses)

    def __getitem__(self, name: str) -> Member[Any]:
        """Return a member by its name. KeyError if there is none."""
        return self._nodes[name].member

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def __len__(self) -> int:
        return len(self._nodes)

    def __bool__(self) -> bool:
        return True

    # -- one member

    def _add(self, request: JobRequest[Any], after: After, name: str) -> Member[Any]:
        self._require_plain(request, name)
        self._require_own([use.reference.source for use in request.uses])
        self._require_own([upstream for upstream, _ in after.upstreams])
        own_id = request.options.id
        job_id = check_id(own_id) if own_id is not None else self._new_id()
        member: Member[Any] = Member(self, self._jobs, job_id, name, request.task.name)
        self._place(Node(member, request, with_inputs(name, after, request.uses)))
        return member

    def _add_each(self, requests: Sequence[JobRequest[R]], after: AfterLike, name: str | None) -> Members[R]:
        awaited = after_of(after)
        self._require_open()
        return Members([self._add(r, awaited, self._fresh(name or r.task.name, numbered=True)) for r in requests])

    def _place(self, node: Node) -> None:
        name = check_name("the member's name", node.member.name)
        if name in self._nodes:
            raise DuplicateMember(f"there are two members named {name!r}; give one of them another name=")
        if len(self._nodes) >= MAX_MEMBERS:
            raise FlowTooLarge(f"a flow has at most {MAX_MEMBERS:,} members; split it, or let members do more")
        self._nodes[name] = node

    def _new_id(self) -> str:
        return ids.new()

    def _fresh(self, name: str, *, numbered: bool = False) -> str:
        """Return `name`, or if it is taken `name-2`, `name-3`; or numbered from the first on."""
        n = self._taken[name, numbered] + 1
        while (found := name if n == 1 and not numbered else f"{name}-{n}") in self._nodes:
            n += 1
        # All numbers up to here are taken: the next search begins after them.
        self._taken[name, numbered] = n - 1
        return found

    # -- several

    def _add_chain(self, links: Sequence[Link], after: After, prefix: str) -> Part[Any]:
        if first_needs_a_result(links):
            raise InvalidInput("a chain begins with a job: write task.job(…) for its first link")
        part: Part[Any] | None = None
        for link in links:
            part = self._add_link(link, after if part is None else after_of(part), part, prefix)
        assert part is not None
        return part

    def _add_link(self, link: Link, after: After, before: Part[Any] | None, prefix: str) -> Part[Any]:
        if isinstance(link, Group):
            return Parts([self._add_link(inner, after, before, prefix) for inner in link.links])
        if isinstance(link, Chain):
            first, *rest = link.links
            part = self._add_link(first, after, before, prefix)
            for inner in rest:
                part = self._add_link(inner, after_of(part), part, prefix)
            return part
        if not is_request(link):
            assert before is not None
            link = cast("Takes[Any, Any]", link).job(before.output)
        request = cast("JobRequest[Any]", link)
        return self._add(request, after, self._fresh(prefix + request.task.name))

    def _embed(self, other: Builder, after: After, name: str | None) -> Subflow:
        self._require_own([upstream for upstream, _ in after.upstreams])
        other.close_into(self)
        prefix = name or self._fresh(getattr(other, "name", "flow"))
        awaited = {upstream for node in other.nodes for upstream, _ in node.after.upstreams}
        for inner, node in other._nodes.items():
            node.member.name = f"{prefix}/{inner}"
            node.after = node.after if node.after.upstreams else after
            self._place(node)
        return Subflow({name: node.member for name, node in other._nodes.items() if node.member not in awaited})

    def close_into(self, parent: Builder) -> None:
        """Become a part of another flow: this one is not stored by itself."""
        self._require_open()
        if parent._root() is self:
            raise InvalidInput("a flow cannot be added to itself")
        self._parent, self.closed = parent, True

    # -- checks

    def _root(self) -> Builder:
        return self if self._parent is None else self._parent._root()

    def _require_open(self) -> None:
        if self.closed:
            raise InvalidInput("this flow is complete: it was stored, or added to another")

    def _require_own(self, members: Iterable[object]) -> None:
        for member in members:
            owner = member.flow if isinstance(member, Member) else None
            if not isinstance(owner, Builder) or owner._root() is not self._root():
                raise ForeignMember(f"{member!r} belongs to another flow; a member can only wait for those of its own")

    def _require_plain(self, request: JobRequest[Any], name: str) -> None:
        if request.options.dedupe_key is not None:
            raise InvalidInput(f"{name!r} has a dedupe_key, which a member of a flow cannot have: it would be two jobs")
        if request.options.connection is not None:
            raise InvalidInput(f"{name!r} has a connection; give it to the flow: app.flow(…, connection=…)")


def _called(task: Task[Any, R], args: tuple[Any, ...], kwargs: dict[str, Any], own: Sequence[str]) -> JobRequest[R]:
    """Return the job of `flow.add(task, …)`, which was also given the keywords `own` of its own."""
    for name in own:
        if task.signature.has_parameter(name):
            raise InvalidInput(
                f"{name}= is an option of flow.add and a parameter of task {task.name!r};"
                f" write flow.add({task.name}.job(…), {name}=…)"
            )
    return task.job(*args, **kwargs)
