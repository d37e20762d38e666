"""Check graphs of flows: no cycles, not too many members, not too long a chain. Works on ids alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, get_args

import msgspec

from ..errors import DuplicateEdge, FlowCycle, FlowTooLarge, InvalidFlow, InvalidInput, SelfEdge
from ..model.flows import Edge, Join, Mode, Policy, Rest
from ..values.references import decode_inputs

MAX_MEMBERS: Final = 10_000
MAX_DEPTH: Final = 1_000
_SHOWN: Final = 6
_POLICIES: Final = get_args(Policy)
_MODES: Final = get_args(Mode)
_RESTS: Final = get_args(Rest)


@dataclass(frozen=True, slots=True)
class Seen:
    """A member as retry sees it: whether it succeeded, is to run again in any case, or could not run."""

    id: str
    is_retried: bool
    is_skipped: bool
    join: Join | None = None


def check_members(count: int) -> None:
    if count > MAX_MEMBERS:
        raise FlowTooLarge(f"a flow has at most {MAX_MEMBERS:,} members, not {count:,}; make several flows of it")


def check_edges(edges: Iterable[Edge]) -> None:
    """Refuse edges from a job to itself, and duplicates."""
    seen: set[tuple[str, str]] = set()
    for edge in edges:
        check_policy(edge.policy)
        if edge.upstream == edge.downstream:
            raise SelfEdge(f"job {edge.upstream} cannot wait for itself")
        if (edge.upstream, edge.downstream) in seen:
            raise DuplicateEdge(f"job {edge.downstream} waits for job {edge.upstream} already")
        seen.add((edge.upstream, edge.downstream))


def check_policy(policy: Policy) -> Policy:
    if policy not in _POLICIES:
        raise InvalidInput(f"an edge is on {policy!r}; use one of {', '.join(_POLICIES)}")
    return policy


def join_of(needs: Mode, needed: int | None, rest: Rest, *, of: str) -> Join:
    """Make the join of the member `of`. InvalidInput if its parts contradict each other."""
    if needs not in _MODES:
        raise InvalidInput(f"{of} needs {needs!r}; use one of {', '.join(_MODES)}")
    if rest not in _RESTS:
        raise InvalidInput(f"{of}: rest is {rest!r}; use one of {', '.join(_RESTS)}")
    if (needed is None) is (needs == "quorum"):
        raise InvalidInput(f"{of}: `needed` belongs to a quorum, and only to that")
    if needs == "all" and rest != "run":
        raise InvalidInput(f"{of} needs all that it waits for; `rest` is for any and for a quorum")
    if needed is not None and type(needed) is not int:
        raise InvalidInput(f"{of}: `needed` is {needed!r}; use a whole number")
    return Join(needs, {"all": 0, "any": 1}.get(needs, needed or 0), rest)


def check_inputs(job_id: str, join: Join, inputs: str | None) -> None:
    """Raise InvalidFlow if the member takes a result without a default and could start without it under this join."""
    if join.mode == "all" or inputs is None:
        return
    for item in decode_inputs(inputs):
        if not isinstance(item.default, msgspec.Raw):
            raise InvalidFlow(
                f"job {job_id} takes the result of job {item.job} and cannot start without it; "
                "only members that take output_or(default) can need fewer than all"
            )


def check_join(join: Join, upstreams: int) -> None:
    if join.mode == "quorum" and not 1 <= join.needed <= max(upstreams, 1):
        raise InvalidFlow(f"a quorum of {join.needed} out of {upstreams} is impossible; ask for 1 to {upstreams}")


def depths(edges: Iterable[Edge], known: Mapping[str, int] | None = None) -> dict[str, int]:
    """Return the length of the longest chain that ends at each job of these edges; a job without upstreams has 1.

    `known` are depths of jobs whose own upstreams are not among these edges. FlowCycle, FlowTooLarge.
    """
    known = known or {}
    after: defaultdict[str, list[str]] = defaultdict(list)
    open_edges: defaultdict[str, int] = defaultdict(int)
    found: dict[str, int] = {}
    for edge in edges:
        after[edge.upstream].append(edge.downstream)
        open_edges[edge.downstream] += 1
        for id in (edge.upstream, edge.downstream):
            found.setdefault(id, known.get(id, 1))
    free = [id for id in found if not open_edges[id]]
    while free:
        id = free.pop()
        for child in after[id]:
            found[child] = max(found[child], found[id] + 1)
            open_edges[child] -= 1
            if not open_edges[child]:
                free.append(child)
    _require_acyclic({id for id in found if open_edges[id]}, after)
    if found and (deepest := max(found.values())) > MAX_DEPTH:
        raise FlowTooLarge(f"a chain has at most {MAX_DEPTH:,} members, not {deepest:,}; make several flows of it")
    return found


def to_retry(members: Iterable[Seen], edges: Iterable[tuple[Edge, bool | None]]) -> set[str]:
    """Return the members to run again: those that are retried in any case, and those skipped because of them."""
    after: defaultdict[str, list[str]] = defaultdict(list)
    before: defaultdict[str, list[tuple[str, bool | None]]] = defaultdict(list)
    for edge, met in edges:
        after[edge.upstream].append(edge.downstream)
        before[edge.downstream].append((edge.upstream, met))
    known = {member.id: member for member in members}
    chosen = {id for id, member in known.items() if member.is_retried}
    pending = list(chosen)
    while pending:
        for child in after[pending.pop()]:
            member = known.get(child)
            if member and member.is_skipped and child not in chosen and _is_possible(member, before[child], chosen):
                chosen.add(child)
                pending.append(child)
    return chosen


def descendants(start: str, edges: Iterable[Edge]) -> set[str]:
    """Return all jobs that wait for a job, directly or not."""
    after: defaultdict[str, list[str]] = defaultdict(list)
    for edge in edges:
        after[edge.upstream].append(edge.downstream)
    found: set[str] = set()
    pending = [start]
    while pending:
        fresh = set(after[pending.pop()]) - found
        found |= fresh
        pending += fresh
    return found


def _is_possible(member: Seen, before: Collection[tuple[str, bool | None]], chosen: Collection[str]) -> bool:
    """Return whether a member could still be released once the chosen ones run again."""
    join = member.join or Join()
    hopeless = sum(met is False and upstream not in chosen for upstream, met in before)
    needed = {"all": len(before), "any": 1}.get(join.mode, join.needed)
    return len(before) - hopeless >= needed


def _require_acyclic(stuck: set[str], after: Mapping[str, list[str]]) -> None:
    if not stuck:
        return
    path = {min(stuck): 0}
    # Each of these has a child among them, so following the children leads back to the start.
    parents = {child: id for id in sorted(stuck) for child in after.get(id, ()) if child in stuck}
    upstream = parents[min(stuck)]
    while upstream not in path:
        path[upstream] = len(path)
        upstream = parents[upstream]
    circle = [*list(path)[path[upstream] :], upstream][::-1]
    shown = " → ".join(circle[:_SHOWN]) + (" → …" if len(circle) > _SHOWN else "")
    raise FlowCycle(f"these wait for each other in a circle of {len(circle) - 1}: {shown}")
