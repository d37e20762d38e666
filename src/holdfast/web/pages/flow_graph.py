"""A flow's graph as shapes. The layout is computed once per graph, the states on each rendering."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from ...model.flows import EdgeRecord, FlowGraph, MemberRecord
from ...model.jobs import JobState
from ...values.references import decode_inputs
from ..graph.grouping import FAN, Item, Node, Structure, structure_of
from ..graph.layout import Layout, Point, Size, lay_out
from ..graph.ranks import Pair
from .flows import mix_of
from .templates import duration, number

MOST_EDGES: Final = 1_500
_MARGIN: Final = 8.0
_HEIGHT: Final = 44.0
_GROUP_HEIGHT: Final = 58.0
_LETTER: Final = 6.9
_SIDES: Final = 46.0
_NARROWEST, _NARROWEST_GROUP, _WIDEST = 160.0, 204.0, 240.0
_ARROW: Final = 7.0
_KEPT: Final = 16

# The state to show first for a group.
_WORST: Final = (
    JobState.FAILED, JobState.EXPIRED, JobState.RUNNING, JobState.SUSPENDED, JobState.READY, JobState.BLOCKED,
    JobState.CANCELLED, JobState.SKIPPED, JobState.SUCCEEDED,
)  # fmt: skip

_Key: TypeAlias = "tuple[str, int, int, int, bool]"
_LAYOUTS: Final[OrderedDict[_Key, tuple[Structure, Layout]]] = OrderedDict()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnNode:
    """A job, or a group of jobs, with its position."""

    key: str
    x: float
    y: float
    width: float
    height: float
    name: str
    sub: str
    title: str
    state: str
    job: str | None
    """The id, if the node is a single job."""
    task: str | None
    bar: list[tuple[str, float, float]]
    """For a group: the states of its jobs side by side, each with start and width."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnEdge:
    """A dependency, drawn as a line with an arrow."""

    key: str
    line: str
    arrow: str
    start: Point
    data: bool
    """True if the upstream passes its result."""
    state: str
    """succeeded when met, skipped when it can no longer be met, running while the upstream runs; else empty."""
    label: str
    label_at: Point
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    width: int
    height: int
    nodes: list[DrawnNode]
    edges: list[DrawnEdge]
    left_out: int
    """The number of edges not drawn."""
    folded: bool
    """True if some nodes are groups."""


def draw(graph: FlowGraph, *, unfold: bool = False) -> Drawing:
    """Return the drawing of a flow. With `unfold` jobs of one task are not grouped, where that fits."""
    structure, layout = _layout_of(graph, unfold)
    members = {member.id: member for member in graph.members}
    nodes = [_drawn(node, layout, members) for node in structure.nodes]
    names = {node.key: node.name for node in nodes}
    edges = _edges(graph, structure, layout, members, names)
    return Drawing(
        width=round(layout.width + 2 * _MARGIN),
        height=round(layout.height + 2 * _MARGIN),
        nodes=nodes,
        edges=edges,
        left_out=len(structure.edges) - len(edges),
        folded=any(node.is_group for node in structure.nodes),
    )


def feeds_of(members: Iterable[MemberRecord]) -> set[Pair]:
    """Return the pairs of jobs where the first passes its result to the second."""
    return {
        (item.job, member.id)
        for member in members
        if member.inputs is not None
        for item in decode_inputs(member.inputs)
    }


def _layout_of(graph: FlowGraph, unfold: bool) -> tuple[Structure, Layout]:
    key = (graph.flow.id, graph.flow.revision, len(graph.members), len(graph.edges), unfold)
    found = _LAYOUTS.pop(key, None)
    if found is None:
        items = [Item(member.id, member.task) for member in graph.members]
        pairs = [(edge.upstream, edge.downstream) for edge in graph.edges]
        structure = structure_of(items, pairs, fan=len(items) if unfold else FAN)
        names = {member.id: member.name for member in graph.members}
        found = structure, lay_out([_size(node, names) for node in structure.nodes], structure.edges)
    _LAYOUTS[key] = found
    while len(_LAYOUTS) > _KEPT:
        _LAYOUTS.popitem(last=False)
    return found


def _size(node: Node, names: Mapping[str, str]) -> Size:
    letters = len(_name(node, names))
    narrowest = _NARROWEST_GROUP if node.is_group else _NARROWEST
    width = min(max(narrowest, letters * _LETTER + _SIDES), _WIDEST)
    return Size(node.key, node.rank, width, _GROUP_HEIGHT if node.is_group else _HEIGHT)


def _name(node: Node, names: Mapping[str, str]) -> str:
    if not node.is_group:
        return names[node.items[0]]
    return f"{number(len(node.items))} × {node.kind or 'several tasks'}"


def _drawn(node: Node, layout: Layout, members: Mapping[str, MemberRecord]) -> DrawnNode:
    place = layout.places[node.key]
    own = [members[id] for id in node.items if id in members]
    counts = Counter(member.state for member in own)
    name = _name(node, {member.id: member.name for member in own[:1]})
    sub = _counted(counts) if node.is_group else _said(own[0])
    return DrawnNode(
        key=node.key,
        x=round(place.x + _MARGIN, 1),
        y=round(place.y + _MARGIN, 1),
        width=round(place.width, 1),
        height=place.height,
        name=_clipped(name, place.width),
        sub=_clipped(sub, place.width + 30),
        title=f"{name}: {sub}" if node.is_group else f"{name} ({own[0].task}): {sub}",
        state=next((str(state) for state in _WORST if counts[state]), "ready"),
        job=None if node.is_group else own[0].id,
        task=node.kind,
        bar=_bar(counts, place.width - 20) if node.is_group else [],
    )


def _said(member: MemberRecord) -> str:
    words = [str(member.state).capitalize()]
    if member.started_at is not None and member.finished_at is not None:
        words.append(duration(max(0, member.finished_at - member.started_at)))
    if member.attempts > 1:
        words.append(f"{member.attempts} attempts")
    elif member.mode in ("any", "quorum") and member.state is JobState.BLOCKED:
        words.append("needs one" if member.mode == "any" else f"needs {member.needed}")
    return " · ".join(words)


def _counted(counts: Mapping[JobState, int]) -> str:
    found = mix_of({str(state): n for state, n in counts.items()})
    worst_first = sorted(found, key=lambda pair: [str(one) for one in _WORST].index(pair[0]))
    return ", ".join(f"{number(n)} {state}" for state, n in worst_first)


def _bar(counts: Mapping[JobState, int], width: float) -> list[tuple[str, float, float]]:
    total, at = sum(counts.values()), 0.0
    bar: list[tuple[str, float, float]] = []
    for state, n in mix_of({str(state): n for state, n in counts.items()}):
        part = width * n / total
        bar.append((state, round(at, 1), round(max(part, 1.0), 1)))
        at += part
    return bar


def _clipped(text: str, width: float) -> str:
    most = max(4, int((width - _SIDES) / _LETTER) + 1)
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _edges(
    graph: FlowGraph,
    structure: Structure,
    layout: Layout,
    members: Mapping[str, MemberRecord],
    names: Mapping[str, str],
) -> list[DrawnEdge]:
    behind: dict[Pair, list[EdgeRecord]] = {pair: [] for pair in structure.edges[:MOST_EDGES]}
    for edge in graph.edges:
        pair = structure.node_of.get(edge.upstream, ""), structure.node_of.get(edge.downstream, "")
        if pair in behind:
            behind[pair].append(edge)
    feeds = feeds_of(graph.members)
    return [
        _edge(pair, layout.ways[pair], records, members, feeds, (names[pair[0]], names[pair[1]]))
        for pair, records in behind.items()
    ]


def _edge(
    pair: Pair,
    way: Sequence[Point],
    records: Sequence[EdgeRecord],
    members: Mapping[str, MemberRecord],
    feeds: set[Pair],
    names: Pair,
) -> DrawnEdge:
    points = [(x + _MARGIN, y + _MARGIN) for x, y in way]
    data = any((record.upstream, record.downstream) in feeds for record in records)
    policies = {record.policy for record in records}
    label = "if it fails" if policies == {"failure"} else "either way" if policies == {"any"} else ""
    end_x, end_y = points[-1]
    verb = "passes its result to" if data else "runs before"
    return DrawnEdge(
        key=f"{pair[0]}-{pair[1]}",
        line=_line([*points[:-1], (end_x - _ARROW, end_y)]),
        arrow=f"M{end_x:.1f} {end_y:.1f}l-{_ARROW:g} -3.5v7z",
        start=(round(points[0][0], 1), round(points[0][1], 1)),
        data=data,
        state=_edge_state(records, members),
        label=label,
        label_at=(round(end_x - _ARROW - 4, 1), round(end_y - 6, 1)),
        title=f"{names[0]} {verb} {names[1]}" + (f", {label}" if label else ""),
    )


def _edge_state(records: Sequence[EdgeRecord], members: Mapping[str, MemberRecord]) -> str:
    met = {record.met for record in records}
    if met == {True}:
        return "succeeded"
    if met == {False}:
        return "skipped"
    running = any(members[record.upstream].state is JobState.RUNNING for record in records if record.met is None)
    return "running" if running else ""


def _line(points: Sequence[Point]) -> str:
    (x, y), *rest = points
    parts = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in rest:
        half = (x + to_x) / 2
        flat = abs(to_y - y) < 0.5
        parts.append(
            f"H{to_x:.1f}" if flat else f"C{half:.1f} {y:.1f} {half:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
        )  # fmt: skip
        x, y = to_x, to_y
    return "".join(parts)
