"""Putting a flow together: nothing of this needs a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import holdfast
from holdfast import Flow, InvalidInput, all_of, any_of, group, quorum
from holdfast.client.flows import plan_edges, plan_flow
from holdfast.errors import DuplicateEdge, DuplicateMember, FlowTooLarge, ForeignMember, InvalidArguments, SelfEdge
from holdfast.flows.builder import Builder

app = holdfast.App(":memory:")


@app.task
def load(region: str) -> list[int]:
    return []


@app.task
def clean(rows: list[int]) -> list[int]:
    return rows


@app.task
def merge(*rows: list[int]) -> int:
    return len(rows)


@app.task
def count(rows: list[list[int]]) -> int:
    return len(rows)


@app.task
def tell(text: str = "") -> None: ...


@pytest.fixture
def flow() -> Flow:
    return app.flow("nightly")


def drawn(flow: Builder) -> dict[str, str]:
    """Each member with what it waits for."""
    return {
        node.member.name: " ".join(f"{up.name}:{policy}" for up, policy in node.after.upstreams) for node in flow.nodes
    }


def test_members_are_named_after_their_task_and_numbered(flow: Flow) -> None:
    flow.add(load.job("eu"))
    flow.add(load.job("us"))
    flow.add(load.job("asia"), name="asia")
    flow.map(load, ["x", "y"], name="rest")
    assert list(drawn(flow)) == ["load", "load-2", "asia", "rest-1", "rest-2"]
    assert flow["asia"].name == "asia" and "rest-1" in flow and len(flow) == 5


def test_a_name_that_was_refused_takes_no_number(flow: Flow) -> None:
    flow.add(load.job("eu"))
    with pytest.raises(DuplicateMember):
        flow.add(load.job("us"), name="load")
    with pytest.raises(InvalidInput):
        flow.add(load.options(dedupe_key="k").job("us"))
    assert flow.add(load.job("us")).name == "load-2"


def test_results_among_the_arguments_are_waited_for(flow: Flow) -> None:
    a, b = flow.add(load.job("eu")), flow.add(load.job("us"))
    flow.add(merge.job(a.output, b.output))
    assert drawn(flow)["merge"] == "load:success load-2:success"


def test_after_is_added_to_what_the_arguments_need(flow: Flow) -> None:
    a, b, c = (flow.add(load.job(region)) for region in ("eu", "us", "asia"))
    flow.add(merge.job(a.output), after=[b, c.failed])
    assert drawn(flow)["merge"] == "load-2:success load-3:failure load:success"


def test_a_result_with_a_default_waits_for_any_end(flow: Flow) -> None:
    a = flow.add(load.job("eu"))
    flow.add(merge.job(a.output_or([])))
    assert drawn(flow)["merge"] == "load:any"


@pytest.mark.parametrize("after", [any_of, lambda a, b: quorum(1, a, b), lambda a, b: [a.ended, b]])
def test_a_job_that_may_start_without_a_result_must_say_what_it_gets_then(
    flow: Flow, after: Callable[[Any, Any], Any]
) -> None:
    a, b = flow.add(load.job("eu")), flow.add(load.job("us"))
    with pytest.raises(InvalidInput, match=r"may start without load.output; .* load.output_or\(None\)"):
        flow.add(merge.job(a.output), after=after(a, b))
    flow.add(merge.job(a.output_or([])), after=after(a, b))


def test_with_any_of_a_result_must_be_among_those_waited_for(flow: Flow) -> None:
    a, b, c = (flow.add(load.job(region)) for region in ("eu", "us", "asia"))
    with pytest.raises(InvalidInput, match="does not wait for it"):
        flow.add(merge.job(c.output_or([])), after=any_of(a, b))


def test_the_join_says_how_many_are_needed_and_what_becomes_of_the_rest(flow: Flow) -> None:
    several = flow.map(load, ["eu", "us", "asia"])
    flow.add(tell.job(), after=quorum(2, several, rest="cancel"))
    join = flow.nodes[-1].after.join
    assert (join.mode, join.needed, join.rest) == ("quorum", 2, "cancel")


@pytest.mark.parametrize("needed", [0, 4, -1, 2.5, True, "2"])
def test_a_quorum_that_cannot_be_is_refused(flow: Flow, needed: int) -> None:
    with pytest.raises(InvalidInput, match="can never be"):
        quorum(needed, flow.map(load, ["eu", "us", "asia"]))


def test_any_of_nothing_is_refused_and_all_of_nothing_is_no_wait(flow: Flow) -> None:
    with pytest.raises(InvalidInput, match="any of nothing"):
        any_of()
    flow.add(count.job(flow.map(load, []).output), after=all_of())
    assert drawn(flow) == {"count": ""}


def test_one_upstream_with_two_different_ends_is_refused(flow: Flow) -> None:
    a = flow.add(load.job("eu"))
    with pytest.raises(DuplicateEdge):
        flow.add(tell.job(), after=[a, a.failed])
    flow.add(tell.job(), after=[a, a])
    assert drawn(flow)["tell"] == "load:success"


def test_joins_cannot_be_nested(flow: Flow) -> None:
    a = flow.add(load.job("eu"))
    with pytest.raises(InvalidInput, match="cannot be nested"):
        all_of(any_of(a), a)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["load", 3, object()])
def test_after_takes_only_what_add_gave(flow: Flow, wrong: Any) -> None:
    with pytest.raises(TypeError, match="after= takes what flow.add gave"):
        flow.add(tell.job(), after=[wrong])


@pytest.mark.parametrize("wrong", [lambda: None, "tell", None])
def test_only_tasks_jobs_chains_groups_and_flows_can_be_added(flow: Flow, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"flow.add takes a task or what task.job\(…\) makes"):
        flow.add(wrong)


def test_a_task_and_its_arguments_are_added_as_its_job_is(flow: Flow) -> None:
    rows = flow.add(load.options(priority=3), "eu")
    flow.add(clean, rows=rows.output)
    flow.add(tell, after=rows)
    flow.add(tell, "done", name="last", after=[rows])
    other = app.flow("nightly")
    same = other.add(load.options(priority=3).job("eu"))
    other.add(clean.job(rows=same.output))
    other.add(tell.job(), after=same)
    other.add(tell.job("done"), name="last", after=[same])
    assert drawn(flow) == drawn(other)
    assert [node.request.payload for node in flow.nodes] == [node.request.payload for node in other.nodes]
    assert flow.nodes[0].request.options.priority == 3


def test_wrong_arguments_for_an_added_task_are_refused(flow: Flow) -> None:
    with pytest.raises(InvalidArguments, match="missing a required argument: 'region'"):
        flow.add(load)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="flow.add takes arguments for a task, not for JobRequest"):
        flow.add(load.job("eu"), "us")  # type: ignore[call-overload]
    assert len(flow) == 0


@pytest.mark.parametrize("own", ["after", "name"])
def test_an_option_of_flow_add_that_is_also_a_parameter_of_the_task_is_refused(flow: Flow, own: str) -> None:
    greet = holdfast.App(":memory:").task(name="greet")(lambda name="", after="": None)
    first = flow.add(tell)
    with pytest.raises(InvalidInput, match=rf"{own}= is .* a parameter of task 'greet'; write flow.add\(greet.job"):
        flow.add(greet, **{own: first if own == "after" else "ada"})  # type: ignore[arg-type]


def test_starmap_adds_a_job_for_each_tuple_of_arguments(flow: Flow) -> None:
    rows = flow.map(load, ["eu", "us"])
    merged = flow.starmap(merge, [(rows[0].output,), (rows[0].output, rows[1].output)], name="part")
    flow.starmap(lambda a, b: tell.job(a + b), [("a", "b")], after=merged)
    assert drawn(flow) == {
        "load-1": "",
        "load-2": "",
        "part-1": "load-1:success",
        "part-2": "load-1:success load-2:success",
        "tell-1": "part-1:success part-2:success",
    }
    assert flow.nodes[-1].request.payload == tell.job("ab").payload


@pytest.mark.parametrize("wrong", ["eu", 7, {"region": "eu"}])
def test_starmap_refuses_items_that_are_no_tuples(flow: Flow, wrong: Any) -> None:
    with pytest.raises(TypeError, match="flow.starmap takes tuples of arguments, not"):
        flow.starmap(load, [("eu",), wrong])
    assert len(flow) == 0


def test_members_of_another_flow_cannot_be_waited_for(flow: Flow) -> None:
    stranger = app.flow("other").add(load.job("eu"))
    with pytest.raises(ForeignMember):
        flow.add(tell.job(), after=stranger)
    with pytest.raises(ForeignMember):
        flow.add(merge.job(stranger.output))
    mine = flow.add(tell.job())
    with pytest.raises(ForeignMember):
        flow.link(stranger, mine)


def test_a_member_itself_is_no_argument(flow: Flow) -> None:
    a = flow.add(load.job("eu"))
    with pytest.raises(InvalidArguments, match="pass member.output"):
        merge.job(a)  # type: ignore[arg-type]


def test_links_can_be_drawn_afterwards(flow: Flow) -> None:
    a, b = flow.add(load.job("eu")), flow.add(tell.job())
    flow.link(a, b, on="any")
    assert drawn(flow)["tell"] == "load:any"
    with pytest.raises(SelfEdge):
        flow.link(a, a)


def test_ten_thousand_members_are_the_most(flow: Flow) -> None:
    flow.map(tell, ["x"] * 10_000)
    with pytest.raises(FlowTooLarge, match="at most 10,000"):
        flow.add(tell.job())


def test_a_chain_passes_each_result_to_the_task_behind_it(flow: Flow) -> None:
    last = flow.add(load.job("eu") | clean | clean, name="eu")
    assert drawn(flow) == {"eu/load": "", "eu/clean": "eu/load:success", "eu/clean-2": "eu/clean:success"}
    flow.add(merge.job(last.output))
    assert drawn(flow)["merge"] == "eu/clean-2:success"


def test_a_job_in_a_chain_only_comes_after(flow: Flow) -> None:
    flow.add(load.job("eu") | tell.job("done"))
    assert drawn(flow)["tell"] == "load:success"
    assert flow.nodes[-1].request.uses == ()


def test_a_group_in_a_chain_fans_out_and_in(flow: Flow) -> None:
    flow.add(load.job("eu") | group(clean, clean, load.job("us") | clean) | count)
    assert drawn(flow) == {
        "load": "",
        "clean": "load:success",
        "clean-2": "load:success",
        "load-2": "load:success",
        "clean-3": "load-2:success",
        "count": "clean:success clean-2:success clean-3:success",
    }


def test_a_chain_begins_with_a_job(flow: Flow) -> None:
    with pytest.raises(InvalidInput, match="begins with a job"):
        flow.add(group(clean) | count)
    with pytest.raises(InvalidInput, match="at least one"):
        group()
    with pytest.raises(TypeError, match="a chain is made of"):
        load.job("eu") | 3  # type: ignore[operator]


def test_chains_and_groups_wait_as_a_whole(flow: Flow) -> None:
    first = flow.add(tell.job())
    flow.add(load.job("eu") | clean, after=first.ended)
    flow.add(group(load.job("us"), load.job("asia")), after=first)
    assert drawn(flow) == {
        "tell": "", "load": "tell:any", "clean": "load:success", "load-2": "tell:success", "load-3": "tell:success",
    }  # fmt: skip


def test_a_flow_can_be_a_part_of_another(flow: Flow) -> None:
    inner = app.flow("region")
    rows = inner.add(load.job("eu"))
    inner.add(clean.job(rows.output))
    first = flow.add(tell.job())
    part = flow.add(inner, name="eu", after=first)
    flow.add(count.job(list(part.output.values())))
    assert drawn(flow) == {
        "tell": "",
        "eu/load": "tell:success",
        "eu/clean": "eu/load:success",
        "count": "eu/clean:success",
    }
    with pytest.raises(InvalidInput, match="complete"):
        inner.add(tell.job())
    flow.add(merge.job(rows.output))
    assert drawn(flow)["merge"] == "eu/load:success"


def test_a_link_on_an_end_that_there_is_not_is_refused(flow: Flow) -> None:
    a, b = flow.add(load.job("eu")), flow.add(tell.job())
    with pytest.raises(InvalidInput, match="use one of success, failure, any"):
        flow.link(a, b, on="failed")  # type: ignore[arg-type]


def test_a_link_cannot_let_a_member_start_without_the_result_that_it_takes(flow: Flow) -> None:
    a = flow.add(load.job("eu"))
    b = flow.add(clean.job(a.output))
    with pytest.raises(InvalidInput, match="may start without"):
        flow.link(a, b, on="failure")


def test_a_part_of_another_tenant_is_foreign() -> None:
    whole, part = app.flow("world", tenant="acme"), app.flow("region", tenant="other")
    part.add(tell.job())
    with pytest.raises(ForeignMember, match="tenant 'other'"):
        whole.add(part)


def test_what_only_a_whole_flow_can_have_is_not_lost_on_a_part(flow: Flow) -> None:
    part = app.flow("region", on_failure=tell.job())
    part.add(tell.job())
    with pytest.raises(InvalidInput, match="callbacks"):
        flow.add(part)


def test_a_flow_cannot_be_added_to_itself(flow: Flow) -> None:
    flow.add(tell.job())
    with pytest.raises(InvalidInput, match="itself"):
        flow.add(flow)


def test_the_stored_plan_has_every_edge_once(flow: Flow) -> None:
    a = flow.add(load.job("eu"))
    b = flow.add(merge.job(a.output, a.output), after=a)
    assert [(e.upstream, e.downstream, e.policy) for e in plan_edges(flow.nodes)] == [(a.id, b.id, "success")]


def test_a_member_of_another_tenant_is_refused() -> None:
    flow = app.flow("nightly", tenant="acme")
    flow.add(load.options(tenant="other").job("eu"))
    with pytest.raises(ForeignMember, match="tenant"):
        plan_flow(flow, None)


def test_a_reference_cannot_leave_its_flow(flow: Flow) -> None:
    a = flow.add(load.job("eu"))
    for misuse in (lambda: clean.enqueue(a.output), lambda: app.enqueue_many([clean.job(a.output)])):
        with pytest.raises(InvalidArguments, match="only be an argument of a job in the same flow"):
            misuse()
    with pytest.raises(InvalidArguments):
        app.schedules.create("s", clean.job(a.output), every=60)
    with pytest.raises(InvalidArguments):
        app.flow("other", on_success=clean.job(a.output))


def test_a_condition_is_no_truth_value(flow: Flow) -> None:
    a = flow.add(load.job("eu"))
    with pytest.raises(TypeError, match="condition"):
        bool(a.failed)


def test_inline_mode_has_no_flows() -> None:
    with app.inline(), pytest.raises(holdfast.errors.ConfigError, match="isolated"):
        app.flow("x")
