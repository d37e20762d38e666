"""What may be a flow, and which part of one is run again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import DuplicateEdge, FlowCycle, FlowTooLarge, InvalidFlow, SelfEdge
from holdfast.model.flows import Edge, Join
from holdfast.rules import flows
from holdfast.rules.flows import MAX_DEPTH, MAX_MEMBERS, Seen

PAIRS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=30)


def edges(*pairs: str) -> list[Edge]:
    return [Edge(*pair.split(">")) for pair in pairs]


def test_depth_is_the_length_of_the_longest_chain() -> None:
    assert flows.depths(edges("a>b", "b>c", "a>c", "d>c")) == {"a": 1, "b": 2, "c": 3, "d": 1}
    assert flows.depths([]) == {}


def test_depths_go_on_from_those_that_are_known() -> None:
    assert flows.depths(edges("old>new"), {"old": 7}) == {"old": 7, "new": 8}


@pytest.mark.parametrize("length", [2, 3, 1000])
def test_a_cycle_is_told_with_its_length_and_its_beginning(length: int) -> None:
    circle = [Edge(f"m{i:04}", f"m{(i + 1) % length:04}") for i in range(length)]
    with pytest.raises(FlowCycle, match=f"circle of {length}: m") as caught:
        flows.depths([*circle, *edges("before>m0000", "m0001>after")])
    assert len(str(caught.value)) < 200


def test_a_chain_may_have_as_many_members_as_the_limit_and_not_one_more() -> None:
    chain = [Edge(str(i), str(i + 1)) for i in range(MAX_DEPTH - 1)]
    assert max(flows.depths(chain).values()) == MAX_DEPTH
    with pytest.raises(FlowTooLarge):
        flows.depths([*chain, Edge(str(MAX_DEPTH - 1), "one more")])
    with pytest.raises(FlowTooLarge):
        flows.depths(edges("old>new"), {"old": MAX_DEPTH})


def test_a_flow_may_have_as_many_members_as_the_limit_and_not_one_more() -> None:
    flows.check_members(MAX_MEMBERS)
    with pytest.raises(FlowTooLarge):
        flows.check_members(MAX_MEMBERS + 1)


def test_edges_lead_neither_to_where_they_start_nor_twice_to_the_same() -> None:
    flows.check_edges(edges("a>b", "b>a"))
    with pytest.raises(SelfEdge):
        flows.check_edges(edges("a>a"))
    with pytest.raises(DuplicateEdge):
        flows.check_edges(edges("a>b", "b>c", "a>b"))


@pytest.mark.parametrize(("needed", "upstreams", "can_be"), [(1, 1, True), (3, 3, True), (0, 3, False), (4, 3, False)])
def test_a_quorum_asks_for_one_at_least_and_no_more_than_there_are(needed: int, upstreams: int, can_be: bool) -> None:
    flows.check_join(Join("all"), upstreams)
    if can_be:
        flows.check_join(Join("quorum", needed), upstreams)
    else:
        with pytest.raises(InvalidFlow):
            flows.check_join(Join("quorum", needed), upstreams)


@given(PAIRS)
def test_a_graph_has_a_cycle_or_every_edge_leads_deeper(pairs: list[tuple[int, int]]) -> None:
    arrows = [Edge(str(a), str(b)) for a, b in pairs if a != b]
    try:
        found = flows.depths(arrows)
    except FlowCycle:
        assert any(edge.upstream in flows.descendants(edge.downstream, arrows) for edge in arrows)
    else:
        assert all(found[edge.upstream] < found[edge.downstream] for edge in arrows)
        assert not any(edge.upstream in flows.descendants(edge.downstream, arrows) for edge in arrows)


def test_descendants_are_all_that_wait_directly_or_not() -> None:
    arrows = edges("a>b", "b>c", "a>d", "x>c")
    assert flows.descendants("a", arrows) == {"b", "c", "d"}
    assert flows.descendants("c", arrows) == set()


def retried(
    members: dict[str, str], *arrows: tuple[str, bool | None], joins: dict[str, Join] | None = None
) -> set[str]:
    """`members`: f is retried, s was skipped, anything else ended well."""
    seen = [Seen(id, how == "f", how == "s", (joins or {}).get(id)) for id, how in members.items()]
    return flows.to_retry(seen, [(Edge(*pair.split(">")), met) for pair, met in arrows])


def test_what_failed_is_retried_with_all_that_was_skipped_for_it() -> None:
    members = {"a": "f", "b": "s", "c": "s", "ok": "", "other": "s"}
    assert retried(members, ("a>b", False), ("b>c", False), ("ok>c", True), ("ok>other", False)) == {"a", "b", "c"}


def test_what_would_be_impossible_still_is_not_retried() -> None:
    assert retried({"a": "f", "ok": "", "b": "s"}, ("a>b", False), ("ok>b", False)) == {"a"}
    one_is_enough = {"b": Join("any")}
    assert retried({"a": "f", "ok": "", "b": "s"}, ("a>b", False), ("ok>b", False), joins=one_is_enough) == {"a", "b"}
    both = {"b": Join("quorum", 2)}
    assert retried({"a": "f", "ok": "", "b": "s"}, ("a>b", False), ("ok>b", False), joins=both) == {"a"}


def test_what_two_failures_made_impossible_is_retried_with_both() -> None:
    assert retried({"a": "f", "b": "f", "c": "s"}, ("a>c", False), ("b>c", False)) == {"a", "b", "c"}
