"""Layered drawings: layers, order and places, and that large graphs stay small."""

from __future__ import annotations

import time
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.web.graph.grouping import FAN, MOST, Item, structure_of
from holdfast.web.graph.layout import GAP_BETWEEN, Size, lay_out
from holdfast.web.graph.ordering import crossings, ordered
from holdfast.web.graph.ranks import ranks_of

Edges = list[tuple[str, str]]


def sizes(ranks: dict[str, int]) -> list[Size]:
    return [Size(key, rank, 100, 40) for key, rank in ranks.items()]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[str], Edges]:
    n = draw(st.integers(1, 24))
    nodes = [f"n{i}" for i in range(n)]
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda pair: pair[0] < pair[1])
    found = draw(st.lists(pairs, max_size=50, unique=True)) if n > 1 else []
    return nodes, [(nodes[a], nodes[b]) for a, b in found]


def test_a_node_is_behind_the_longest_way_to_it() -> None:
    ranks = ranks_of(["a", "b", "c", "d"], [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), ("a", "d")])
    assert ranks == {"a": 0, "b": 1, "c": 2, "d": 3}


def test_a_circle_does_not_hang_and_unknown_ends_are_passed_over() -> None:
    assert ranks_of(["a", "b"], [("a", "b"), ("b", "a"), ("x", "a"), ("a", "a")]) == {"a": 0, "b": 0}


def test_edges_that_cross_are_untangled() -> None:
    edges = [("a", "y"), ("b", "x")]
    after = {"a": ["y"], "b": ["x"]}
    assert crossings([["a", "b"], ["x", "y"]], after) == 1
    assert crossings(ordered([["a", "b"], ["x", "y"]], edges), after) == 0


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_order_never_adds_crossings_and_keeps_every_node(graph: tuple[list[str], Edges]) -> None:
    nodes, edges = graph
    ranks = ranks_of(nodes, edges)
    layers = [[node for node in nodes if ranks[node] == rank] for rank in range(max(ranks.values()) + 1)]
    near = [(a, b) for a, b in edges if ranks[b] == ranks[a] + 1]
    after: dict[str, list[str]] = {}
    for a, b in near:
        after.setdefault(a, []).append(b)
    done = ordered(layers, near)
    assert [sorted(layer) for layer in done] == [sorted(layer) for layer in layers]
    assert crossings(done, after) <= crossings(layers, after)


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_nodes_do_not_touch_and_edges_lead_to_the_right(graph: tuple[list[str], Edges]) -> None:
    nodes, edges = graph
    layout = lay_out(sizes(ranks_of(nodes, edges)), edges)
    assert set(layout.places) == set(nodes)
    for place in layout.places.values():
        assert place.x >= 0
        assert place.y >= -0.01
        assert place.y + place.height <= layout.height + 0.01
        assert place.x + place.width <= layout.width + 0.01
    by_column: dict[float, list[float]] = {}
    for place in layout.places.values():
        by_column.setdefault(place.x, []).append(place.y)
    for column in by_column.values():
        assert all(lower - upper >= 40 + GAP_BETWEEN - 0.01 for upper, lower in pairwise(sorted(column)))
    for way in layout.ways.values():
        assert all(x <= further for (x, _), (further, _) in pairwise(way))


def test_the_only_one_behind_many_stands_in_their_middle() -> None:
    edges = [(f"n{i}", "sink") for i in range(4)]
    layout = lay_out(sizes({"n0": 0, "n1": 0, "n2": 0, "n3": 0, "sink": 1}), edges)
    middles = sorted(layout.places[f"n{i}"].middle for i in range(4))
    assert abs(layout.places["sink"].middle - sum(middles) / 4) < 1


def test_a_long_edge_goes_around_what_is_in_between() -> None:
    layout = lay_out(sizes({"a": 0, "b": 1, "c": 2}), [("a", "b"), ("b", "c"), ("a", "c")])
    between = layout.places["b"]
    inner = [y for x, y in layout.ways["a", "c"] if between.x <= x <= between.x + between.width]
    assert inner
    assert all(y < between.y or y > between.y + between.height for y in inner)


def test_the_same_graph_always_has_the_same_drawing() -> None:
    edges = [("a", "c"), ("b", "c"), ("b", "d")]
    once = lay_out(sizes({"a": 0, "b": 0, "c": 1, "d": 1}), edges)
    assert lay_out(sizes({"a": 0, "b": 0, "c": 1, "d": 1}), edges) == once


def test_nothing_is_a_drawing_too() -> None:
    assert lay_out([], []).places == {}
    assert structure_of([], []).nodes == ()


def test_a_small_graph_is_drawn_member_by_member() -> None:
    items = [Item(f"m{i}", "work") for i in range(FAN)] + [Item("sink", "merge")]
    structure = structure_of(items, [(f"m{i}", "sink") for i in range(FAN)])
    assert len(structure.nodes) == FAN + 1
    assert not any(node.is_group for node in structure.nodes)


def test_a_wide_fan_of_one_task_is_one_node() -> None:
    items = [Item("source", "split"), *(Item(f"m{i}", "work") for i in range(FAN + 1)), Item("sink", "merge")]
    edges = [("source", f"m{i}") for i in range(FAN + 1)] + [(f"m{i}", "sink") for i in range(FAN + 1)]
    structure = structure_of(items, edges)
    assert [len(node.items) for node in structure.nodes] == [1, FAN + 1, 1]
    assert len(structure.edges) == 2


def test_ten_thousand_members_are_few_nodes_whatever_their_shape() -> None:
    shapes = {
        "fan": ([Item(f"m{i}", f"t{i % 3}") for i in range(10_000)], [("m0", f"m{i}") for i in range(1, 10_000)]),
        "chain": ([Item(f"m{i}", "t") for i in range(10_000)], [(f"m{i}", f"m{i + 1}") for i in range(9_999)]),
        "motley": ([Item(f"m{i}", f"t{i}") for i in range(10_000)], [(f"m{i}", f"m{i + 7}") for i in range(9_993)]),
        "loose": ([Item(f"m{i}", f"t{i}") for i in range(10_000)], []),
    }
    for name, (items, edges) in shapes.items():
        began = time.thread_time()
        structure = structure_of(items, edges)
        layout = lay_out([Size(node.key, node.rank, 150, 44) for node in structure.nodes], structure.edges)
        assert len(structure.nodes) <= MOST, name
        assert sum(len(node.items) for node in structure.nodes) == 10_000, name
        assert len({node.key for node in structure.nodes}) == len(structure.nodes), name
        assert set(layout.places) == {node.key for node in structure.nodes}, name
        assert time.thread_time() - began < 5, name


def test_a_dense_graph_is_laid_out_in_bounded_time() -> None:
    nodes = [f"n{i}" for i in range(MOST)]
    edges = [(nodes[a], nodes[b]) for a in range(MOST) for b in range(a + 1, MOST)]
    began = time.thread_time()
    lay_out(sizes(ranks_of(nodes, edges)), edges)
    assert time.thread_time() - began < 5
