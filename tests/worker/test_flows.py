"""Flows as a user writes them, run by a worker's own parts, on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

import holdfast
from holdfast import App, Context, SyncContext, any_of, quorum
from holdfast.model import FlowState
from holdfast.model.flows import Edge, FlowFilter
from holdfast.testing import adrain, drain


@pytest.fixture
def app(place: str) -> Iterator[App]:
    it = App(place)
    it.migrate()
    _register(it)
    yield it
    it.close()


def _register(app: App) -> None:
    @app.task
    async def load(region: str) -> list[int]:
        return [len(region)]

    @app.task
    def merge(left: list[int], right: list[int]) -> dict[str, list[int]]:
        return {"rows": left + right}

    @app.task
    def total(rows: list[int], more: int | None = None) -> int:
        return sum(rows) + (more or 0)

    @app.task(max_attempts=1)
    def broken(text: str = "as asked") -> int:
        raise ValueError(text)

    @app.task
    async def say(text: str) -> str:
        return text

    @app.task
    def size(values: list[str]) -> int:
        return len(values)

    @app.task
    def anything(value: Any = None) -> Any:
        return value


def test_tasks_added_with_their_arguments_run_with_them(app: App) -> None:
    load, merge, total = (app.tasks[name] for name in ("load", "merge", "total"))
    with app.flow("nightly") as flow:
        rows = flow.map(load, ["eu", "america"])
        both = flow.add(merge, rows[0].output, right=rows[1].output)
        sums = flow.starmap(total, [(both.output["rows"], 1), (both.output["rows"], 2)])
    drain(app)
    assert [member.result() for member in sums] == [10, 11]


def test_results_go_from_job_to_job(app: App) -> None:
    load, merge, total = (app.tasks[name] for name in ("load", "merge", "total"))
    with app.flow("nightly") as flow:
        a, b = flow.add(load.job("eu")), flow.add(load.job("asia"))
        c = flow.add(merge.job(a.output, b.output))
        d = flow.add(total.job(c.output["rows"], more=a.output[0]))
    assert flow.state is FlowState.RUNNING
    assert flow.progress() == {"ready": 2, "blocked": 2}
    assert drain(app).succeeded == 4
    assert flow.wait(0) is FlowState.SUCCEEDED
    assert (c.result(0), d.result(0), flow.result(0)) == ({"rows": [2, 4]}, 8, 8)
    assert flow.progress() == {"succeeded": 4}


def test_several_sinks_are_a_dict_of_results_by_name(app: App) -> None:
    say = app.tasks["say"]
    with app.flow("two") as flow:
        flow.add(say.job("x"), name="x")
        flow.add(say.job("y"), name="y")
        flow.add(say.job("never"), name="z", after=flow["x"].failed)
    drain(app)
    assert flow.result(0) == {"y": "y"}
    assert flow["z"].state == "skipped"


def test_a_failure_skips_what_needs_it_and_runs_what_waits_for_it(app: App) -> None:
    broken, total, say = (app.tasks[name] for name in ("broken", "total", "say"))
    with app.flow("broken") as flow:
        a = flow.add(broken.job("boom"))
        b = flow.add(total.job([1], more=a.output))
        c = flow.add(say.job("alarm"), after=a.failed)
        d = flow.add(say.job("clean"), after=[a.ended, b.ended])
    drain(app)
    assert [member.state for member in (a, b, c, d)] == ["failed", "skipped", "succeeded", "succeeded"]
    with pytest.raises(holdfast.errors.JobSkipped):
        b.result(0)
    with pytest.raises(
        holdfast.errors.FlowNotSucceeded, match=r"failed: broken \(exhausted: ValueError: boom\)"
    ) as failed:
        flow.result(0)
    assert (failed.value.state, list(failed.value.failures)) == ("failed", ["broken"])


def test_the_first_of_several_is_enough_and_the_rest_is_cancelled(app: App) -> None:
    load, total, anything = (app.tasks[name] for name in ("load", "total", "anything"))
    with app.flow("race") as flow:
        quick = flow.add(load.job("eu"))
        slow = flow.add(load.options(delay=3600).job("us"))
        first = flow.add(
            anything.job([quick.output_or(None), slow.output_or(None)]), after=any_of(quick, slow, rest="cancel")
        )
        two = flow.add(total.job([1]), after=quorum(1, first, quick.failed))
    drain(app)
    assert (first.result(0), two.result(0)) == ([[2], None], 1)
    assert slow.state == "cancelled"
    assert flow.wait(0) is FlowState.SUCCEEDED


def test_a_result_that_does_not_fit_fails_the_job_that_takes_it(app: App) -> None:
    say, anything = app.tasks["say"], app.tasks["anything"]
    with app.flow("unfit") as flow:
        number = flow.add(anything.job(3))
        text = flow.add(say.job(number.output))
    drain(app)
    with pytest.raises(holdfast.JobFailed, match="undecodable: .*text: expected str, got int"):
        text.result(0)


def test_results_that_are_too_much_together_fail_the_job_that_takes_them(app: App) -> None:
    anything = app.tasks["anything"]
    anything.signature.limit = 2_100_000
    with app.flow("large") as flow:
        parts = flow.map(lambda n: anything.job("x" * 200_000), range(11))
        last = flow.add(anything.job(parts.output))
        fits = flow.add(app.tasks["size"].job(parts[:3].output))
    drain(app)
    with pytest.raises(holdfast.JobFailed, match="inputs_too_large: .* take 2,2.* bytes"):
        last.result(0)
    assert fits.result(0) == 3


def test_many_small_results_are_no_trouble(app: App) -> None:
    anything, total = app.tasks["anything"], app.tasks["total"]
    with app.flow("many") as flow:
        parts = flow.map(anything, range(300))
        flow.add(total.job(parts.output))
    drain(app, concurrency=50)
    assert flow.result(0) == sum(range(300))


def test_a_default_is_passed_for_what_did_not_succeed(app: App) -> None:
    broken, total = app.tasks["broken"], app.tasks["total"]
    with app.flow("default") as flow:
        a = flow.add(broken.job())
        b = flow.add(total.job([1], more=a.output_or(5)))
    drain(app)
    assert b.result(0) == 6


def test_nothing_is_stored_when_the_block_fails(app: App) -> None:
    with pytest.raises(ZeroDivisionError), app.flow("never") as flow:
        flow.add(app.tasks["say"].job(str(1 / (len(flow.name) - 5))))
    assert app.flows.find() == []
    assert drain(app).runs == 0


def test_a_cycle_is_refused_and_nothing_is_stored(app: App) -> None:
    say = app.tasks["say"]
    flow = app.flow("circle")
    a = flow.add(say.job("a"))
    b = flow.add(say.job("b"), after=a)
    flow.link(flow.add(say.job("c"), after=b), a)
    with pytest.raises(holdfast.errors.FlowCycle):
        flow.start()
    assert app.flows.find() == [] and app.jobs.find() == []


def test_a_long_chain_is_refused_beyond_a_thousand(app: App) -> None:
    say = app.tasks["say"]
    flow = app.flow("long")
    last = flow.add(say.job("0"))
    for n in range(1_000):
        last = flow.add(say.job(str(n)), after=last)
    with pytest.raises(holdfast.errors.FlowTooLarge, match="1,000"):
        flow.start()


def test_a_task_that_this_app_does_not_know_is_refused(app: App) -> None:
    other = App(":memory:")
    flow = app.flow("unknown")
    flow.add(other.declare("elsewhere").job())
    with pytest.raises(holdfast.errors.UnknownTask, match="elsewhere"):
        flow.start()


def test_a_flow_is_stored_once(app: App) -> None:
    with app.flow("once") as flow:
        flow.add(app.tasks["say"].job("x"))
    with pytest.raises(holdfast.InvalidInput, match="complete"):
        flow.start()
    with pytest.raises(holdfast.InvalidInput, match="complete"):
        flow.add(app.tasks["say"].job("y"))


def test_an_unknown_flow_is_not_found(app: App) -> None:
    for look in (app.flows.status, app.flows.graph, app.flows.retry, app.flows.wait, app.flows.cancel):
        with pytest.raises(holdfast.errors.FlowNotFound):
            look("no-such-flow")


def test_waiting_ends_with_the_time(app: App) -> None:
    with app.flow("slow") as flow:
        flow.add(app.tasks["say"].options(delay=60).job("x"))
    with pytest.raises(holdfast.ResultTimeout, match=f"flow {flow.id} has not ended after 0.01 s"):
        flow.result(0.01)


def test_callbacks_are_enqueued_at_the_end(app: App) -> None:
    say, broken = app.tasks["say"], app.tasks["broken"]
    with app.flow("good", on_success=say.job("good"), on_failure=say.job("never")) as flow:
        flow.add(say.job("x"))
    with app.flow("bad", on_success=say.job("never"), on_failure=say.job("bad")) as flow:
        flow.add(broken.job())
    drain(app)
    ran = sorted(job.payload for job in app.jobs.find() if job.flow is None)
    assert ran == ['{"text":"bad"}', '{"text":"good"}']


def test_the_awaiting_twins_do_the_same(app: App) -> None:
    async def main() -> None:
        load, total = app.tasks["load"], app.tasks["total"]
        async with app.flow("nightly") as flow:
            a = flow.add(load.job("eu"))
            flow.add(total.job(a.output))
        assert await flow.aprogress() == {"ready": 1, "blocked": 1}
        await adrain(app)
        assert await flow.await_(1) is FlowState.SUCCEEDED
        assert await flow.aresult(1) == 2
        assert (await flow.astatus()).name == "nightly"
        assert [found.id for found in await app.flows.afind()] == [flow.id]
        assert len((await app.flows.agraph(flow.id)).members) == 2

    asyncio.run(main())


def test_a_flow_that_is_cancelled_ends_and_says_so(app: App) -> None:
    say = app.tasks["say"]
    with app.flow("cancelled") as flow:
        a = flow.add(say.options(delay=60).job("x"))
        flow.add(say.job("y"), after=a)
    first = flow.cancel(reason="not today")
    again = flow.cancel("flow_only", reason="another")
    assert (first.policy, first.again) == ("cancel_all", False)
    assert (again.policy, again.reason, again.again) == ("cancel_all", "not today", True)
    drain(app)
    assert flow.wait(1) is FlowState.CANCELLED
    assert flow.progress() == {"cancelled": 2}


def test_the_failed_part_runs_again(app: App) -> None:
    fixed = False

    @app.task(max_attempts=1)
    def fickle() -> int:
        if not fixed:
            raise ValueError("not yet")
        return 5

    say, total = app.tasks["say"], app.tasks["total"]
    with app.flow("again") as flow:
        good, bad = flow.add(say.job("x")), flow.add(fickle.job())
        last = flow.add(total.job([1], more=bad.output), after=good)
    drain(app)
    assert flow.state is FlowState.FAILED
    fixed = True
    assert set(flow.retry()) == {bad.id, last.id}
    assert drain(app).runs == 2
    assert flow.result(0) == 6
    assert set(app.flows.retry_member(bad.id)) == {bad.id, last.id}
    drain(app)
    assert flow.result(0) == 6


def test_a_quorum_instead_of_all_lets_a_member_start_that_a_failure_would_have_skipped(app: App) -> None:
    say, broken, size = app.tasks["say"], app.tasks["broken"], app.tasks["size"]
    with app.flow("votes") as flow:
        first = flow.add(say.job("a"))
        votes = [first, flow.add(say.options(delay=3600).job("b")), flow.add(broken.job())]
        last = flow.add(size.job([vote.output_or("none") for vote in votes]), after=votes, name="last")
        sums = flow.add(app.tasks["anything"].job([vote.output for vote in votes[:2]]))
    with pytest.raises(holdfast.errors.InvalidFlow, match="output_or"):
        app.flows.set_join(sums, "any")
    done = app.flows.set_join(last, "quorum", needed=1, actor="ann")
    assert (done.needed, done.upstreams, done.state, done.changed) == (1, 3, "blocked", True)
    drain(app)
    assert last.result(0) == 3
    with pytest.raises(holdfast.errors.IllegalMove, match="its join has fired"):
        app.flows.set_join(last.id, "all")


@pytest.mark.parametrize(
    ("needs", "needed", "rest"),
    [
        ("most", None, "run"), ("quorum", None, "run"), ("any", 2, "run"), ("all", None, "cancel"), ("any", None, "no"),
        ("quorum", "2", "run"), ("quorum", True, "run"), ("quorum", 4, "run"), ("quorum", 0, "run"),
    ],
)  # fmt: skip
def test_a_join_that_cannot_be_is_refused_in_both_colours(app: App, needs: Any, needed: Any, rest: Any) -> None:
    with app.flow("pair") as flow:
        last = flow.add(app.tasks["say"].job("b"), after=flow.map(app.tasks["say"], ["a", "b", "c"]))
    with pytest.raises(holdfast.InvalidInput):
        app.flows.set_join(last, needs, needed=needed, rest=rest)
    with pytest.raises(holdfast.InvalidInput):
        asyncio.run(app.flows.aset_join(last, needs, needed=needed, rest=rest))
    assert asyncio.run(app.flows.aset_join(last, "any")).state == "blocked"


def test_an_empty_flow_is_refused(app: App) -> None:
    with pytest.raises(holdfast.errors.InvalidFlow, match="no members"):
        app.flow("empty").start()


def test_a_flow_can_be_put_together_piece_by_piece(app: App) -> None:
    say = app.tasks["say"]
    flow = app.flows.begin("remote")
    made = app.flows.add(flow, {"a": say.job("a"), "b": say.job("b")})
    edges = [Edge(made["a"], made["b"])]
    with pytest.raises(holdfast.errors.StaleRevision):
        app.flows.stage(flow.id, edges, revision=flow.revision)
    app.flows.stage(flow.id, edges, revision=app.flows.status(flow.id).revision)
    assert drain(app).runs == 0
    assert (app.flows.apply(flow.id), app.flows.apply(flow.id)) == (1, 0)
    drain(app)
    assert app.flows.handle(flow.id).result(0) == "b"
    with pytest.raises(holdfast.errors.FlowEnded):
        app.flows.add(flow, {"c": say.job("c")})


def test_a_flow_that_is_begun_again_under_its_id_is_the_same_one(app: App) -> None:
    flow = app.flows.begin("remote", id="mine")
    assert (app.flows.begin("remote", id="mine"), flow.id) == (flow, "mine")
    with pytest.raises(holdfast.errors.Conflict, match="another name"):
        app.flows.begin("other", id="mine")


def test_a_flow_commits_with_the_transaction_of_its_caller(app: App, place: str) -> None:
    load, total = app.tasks["load"], app.tasks["total"]

    def build(connection: Any) -> holdfast.Flow:
        with app.flow("mine", connection=connection) as flow:
            flow.add(total.job(flow.add(load.job("eu")).output))
        return flow

    connection = psycopg.connect(place) if place.startswith("postgresql") else app.connect()
    with closing(connection):
        if not place.startswith("postgresql"):
            connection.execute("begin immediate")
        build(connection)
        connection.rollback()
        assert app.flows.find() == []
        if not place.startswith("postgresql"):
            connection.execute("begin immediate")
        flow = build(connection)
        connection.commit()
    drain(app)
    assert flow.result(0) == 2


def test_members_are_of_the_flows_tenant(app: App) -> None:
    with app.flow("acme's", tenant="acme") as flow:
        member = flow.add(app.tasks["say"].job("x"))
    assert member.status().tenant == "acme"


# -- members that add members


def test_a_running_member_adds_others_to_its_own_flow(app: App) -> None:
    total = app.tasks["total"]

    @app.task
    async def split(ctx: Context, n: int) -> None:
        async with ctx.flow() as flow:
            parts = flow.map(total, [[i] for i in range(n)])
            flow.add(total.job(parts.output), after=flow.me)

    with app.flow("dynamic") as flow:
        flow.add(split.job(3))
    drain(app)
    names = [member.name for member in app.flows.graph(flow.id).members]
    assert sorted(names) == ["split", "split/total", "split/total-1", "split/total-2", "split/total-3"]
    assert flow.result(0) == 3


def test_a_member_that_runs_again_adds_nothing_twice(app: App) -> None:
    say = app.tasks["say"]

    @app.task(retry=holdfast.RetryPolicy(kind="none"))
    def grow(ctx: SyncContext) -> None:
        for text in ("a", "b"):
            with ctx.flow() as flow:
                flow.add(say.job(text), name=text)
        if ctx.attempt < 3:
            raise holdfast.Retry("once more", after=0)

    with app.flow("again") as flow:
        grower = flow.add(grow.job())
    drain(app)
    assert grower.status().attempts == 3
    assert flow.progress() == {"succeeded": 3}
    assert sorted(m.name for m in app.flows.graph(flow.id).members) == ["grow", "grow/a", "grow/b"]


def test_a_member_that_is_replayed_adds_members_of_its_new_life(app: App) -> None:
    say = app.tasks["say"]

    @app.task
    def grow(ctx: SyncContext) -> None:
        with ctx.flow() as flow:
            flow.add(say.job("x"), name="x")

    with app.flow("replayed") as flow:
        grower = flow.add(grow.job())
    drain(app)
    app.flows.retry_member(grower.id)
    drain(app)
    assert sorted(m.name for m in app.flows.graph(flow.id).members) == ["grow", "grow/x", "grow~1/x"]
    assert flow.wait(0) is FlowState.SUCCEEDED


def test_each_block_of_a_run_may_add_jobs_of_the_same_task(app: App) -> None:
    say = app.tasks["say"]

    @app.task(max_attempts=1)
    def grow(ctx: SyncContext) -> None:
        for text in ("a", "b"):
            with ctx.flow() as flow:
                flow.add(say.job(text))

    with app.flow("blocks") as flow:
        flow.add(grow.job())
    drain(app)
    assert sorted(m.name for m in app.flows.graph(flow.id).members) == ["grow", "grow/2.say", "grow/say"]


def test_what_a_recorded_step_has_added_takes_nothing_from_what_comes_after_it(app: App) -> None:
    say = app.tasks["say"]

    @app.task(retry=holdfast.RetryPolicy(kind="none"))
    def grow(ctx: SyncContext) -> None:
        def inside() -> None:
            with ctx.flow() as flow:
                flow.add(say.job("inside"))

        ctx.step("inside", inside)
        if ctx.attempt == 1:
            raise RuntimeError("the next run does not go into the step")
        with ctx.options(max_attempts=1).flow() as flow:
            flow.add(say.job("after"))

    with app.flow("steps") as flow:
        flow.add(grow.job())
    drain(app)
    assert sorted(flow.result(0).values(), key=str) == [None, "after", "inside"]


def test_a_handler_that_is_to_be_left_adds_nothing_any_more(app: App) -> None:
    say = app.tasks["say"]

    @app.task
    def stays(ctx: SyncContext) -> None:
        try:
            ctx.wait_for("never")
        except BaseException:
            with ctx.flow() as flow:
                flow.add(say.job("too late"))

    with app.flow("left") as flow:
        flow.add(stays.job())
    drain(app)
    assert flow.progress() == {"suspended": 1}


@pytest.mark.parametrize("wrong", [{"state": "bogus"}, {"limit": -1}, {"limit": 0}, {"name": 5}], ids=str)
def test_a_filter_of_flows_that_makes_no_sense_is_refused(app: App, wrong: dict[str, Any]) -> None:
    with pytest.raises(holdfast.InvalidInput):
        app.flows.find(FlowFilter(**wrong))


def test_a_job_without_a_flow_has_nothing_to_add_to(app: App) -> None:
    @app.task(max_attempts=1)
    def lonely(ctx: SyncContext) -> None:
        ctx.flow()

    job = lonely.enqueue()
    drain(app)
    with pytest.raises(holdfast.JobFailed, match="not a member of a flow"):
        job.result(0)
