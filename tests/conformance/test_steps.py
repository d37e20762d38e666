"""The journal of a job: written by the run that owns it, once, and read by every later one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import LeaseLost, NotFound, QueueClosed
from holdfast.ids import ids
from holdfast.model.jobs import Claimed, JobSpec, JobState
from holdfast.model.outcomes import Done, Failed, Released, Retry, Snoozed, Throttled
from holdfast.model.steps import Step
from holdfast.rules.steps import Call
from holdfast.storage.ops import steps
from holdfast.storage.ops.jobs import actions
from holdfast.storage.port import Op

from .faulty import FaultyStore
from .world import ERROR, World, spec


def entry(name: str = "load", nth: int = 1, **fields: object) -> Step:
    call = Call("step", name, nth, "fetch", position=nth)
    known = {"key": call.key, "kind": call.kind, "name": name, "called": "fetch", "position": nth, "value": "1"}
    return Step(**{**known, **fields})  # type: ignore[arg-type]


def running(world: World, **fields: object) -> tuple[str, Claimed]:
    """A job in the hands of a worker."""
    owner = world.worker()
    world.add(**fields)
    return owner, world.take(owner)


def record(world: World, owner: str, job: Claimed, step: Step, **options: object) -> Step:
    return world.run(steps.record, owner, job.id, job.epoch, step, **options)


def journal(world: World, job_id: str) -> list[Step]:
    return list(world.read(steps.read_journal, job_id).steps)


def test_a_recorded_step_is_read_back_with_when_it_ran(world: World) -> None:
    owner, job = running(world)
    told = record(world, owner, job, entry(attempts=3, attributes='{"model":"m"}'), took=1_500)
    (found,) = journal(world, job.id)
    assert found == told
    assert (found.key, found.called, found.value, found.attempts) == ("step:load#1", "fetch", "1", 3)
    assert (found.started_at, found.ended_at, found.epoch) == (world.now - 1_500, world.now, job.epoch)
    assert found.attributes == '{"model":"m"}'


def test_steps_come_in_the_order_in_which_they_were_asked_for(world: World) -> None:
    owner, job = running(world)
    for step in (entry("c", position=3), entry("a", position=1), entry("b", position=2)):
        record(world, owner, job, step)
    assert [step.name for step in journal(world, job.id)] == ["a", "b", "c"]


def test_a_recorded_step_is_never_overwritten(world: World) -> None:
    owner, job = running(world)
    record(world, owner, job, entry(value='"first"'))
    assert record(world, owner, job, entry(value='"second"')).value == '"first"'
    assert [step.value for step in journal(world, job.id)] == ['"first"']


def test_only_the_run_that_owns_the_job_can_record(world: World) -> None:
    owner, job = running(world)
    stranger = world.worker()
    for who, epoch in ((stranger, job.epoch), (owner, job.epoch + 1), (owner, job.epoch - 1)):
        with pytest.raises(LeaseLost):
            world.run(steps.record, who, job.id, epoch, entry())
    assert journal(world, job.id) == []


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.RUNNING])
def test_a_job_that_does_not_run_records_nothing(world: World, state: JobState) -> None:
    placed = world.place(state)
    with pytest.raises(LeaseLost):
        world.run(steps.record, placed.owner, placed.id, placed.epoch, entry())
    assert journal(world, placed.id) == []


def test_a_job_that_is_gone_is_named_as_missing(world: World) -> None:
    with pytest.raises(NotFound):
        world.run(steps.record, "somebody", "nowhere", 1, entry())


def test_a_rescued_run_cannot_record_after_its_successor_began(world: World) -> None:
    owner, job = running(world)
    record(world, owner, job, entry("before"))
    world.lose(owner)
    successor = world.worker()
    world.clock.advance(3600)
    taken = world.take(successor, suspects=1)
    with pytest.raises(LeaseLost):
        record(world, owner, job, entry("late"))
    record(world, successor, taken, entry("after", 2))
    assert [step.name for step in journal(world, job.id)] == ["before", "after"]


def test_the_end_of_a_sleep_is_told_by_the_stores_clock(world: World) -> None:
    owner, job = running(world)
    told = record(world, owner, job, entry(kind="sleep", key="sleep:#1", value=None), wake_after=5_000_000)
    assert told.value == str(world.now + 5_000_000)
    world.clock.advance(2)
    found = world.read(steps.read_journal, job.id)
    assert int(found.steps[0].value or 0) - found.read_at == 3_000_000


def test_an_enqueue_and_its_entry_are_one(world: World) -> None:
    owner, job = running(world)
    child = spec(task="child")
    made = world.run(steps.record_enqueue, owner, job.id, job.epoch, entry("", kind="enqueue"), child)
    assert (made.id, made.created) == (child.id, True)
    again = world.run(steps.record_enqueue, owner, job.id, job.epoch, entry("", kind="enqueue"), spec(task="child"))
    assert again == made
    assert world.jobs() == 2


def test_an_enqueue_by_a_run_that_lost_its_job_leaves_nothing(world: World) -> None:
    owner, job = running(world)
    with pytest.raises(LeaseLost):
        world.run(steps.record_enqueue, owner, job.id, job.epoch + 1, entry(), spec(task="child"))
    assert world.jobs() == 1
    assert journal(world, job.id) == []


def test_an_enqueue_that_met_a_twin_is_answered_with_that_twin_for_ever(world: World) -> None:
    owner, job = running(world)
    twin = world.add(task="child", key="k", scope="child")
    made = world.run(steps.record_enqueue, owner, job.id, job.epoch, entry(), _keyed())
    assert (made.id, made.created) == (twin, False)
    world.run(actions.cancel, twin)
    again = world.run(steps.record_enqueue, owner, job.id, job.epoch, entry(), _keyed())
    assert again == made


def _keyed() -> JobSpec:
    return spec(task="child", key="k", scope="child")


def _next_run(world: World, owner: str, job: Claimed, outcome: object) -> Claimed:
    world.finish(owner, job, outcome)  # type: ignore[arg-type]
    world.clock.advance(3600)
    return world.take(owner)


FAILED_STEP = entry("charge", value=None, error=ERROR)


@pytest.mark.parametrize("outcome", [Snoozed(1, "sleep"), Released("shutdown"), Throttled(1, ERROR)])
def test_a_recorded_failure_holds_while_its_attempt_goes_on(world: World, outcome: object) -> None:
    owner, job = running(world)
    record(world, owner, job, FAILED_STEP)
    _next_run(world, owner, job, outcome)
    assert [step.error for step in journal(world, job.id)] == [ERROR]


def test_a_recorded_failure_holds_after_a_crash(world: World) -> None:
    owner, job = running(world)
    record(world, owner, job, FAILED_STEP)
    world.lose(owner)
    assert [step.error for step in journal(world, job.id)] == [ERROR]


def test_a_failed_step_is_tried_again_by_the_attempt_after_the_one_that_failed_with_it(world: World) -> None:
    owner, job = running(world)
    record(world, owner, job, entry("load"))
    record(world, owner, job, replace(FAILED_STEP, position=2))
    again = _next_run(world, owner, job, Retry(0, ERROR))
    found = world.read(steps.read_journal, job.id)
    assert ([step.name for step in found.steps], found.stale) == (["load"], {"step:charge#1"})
    paid = entry("charge", value='"paid"', position=2)
    told = world.run(steps.overwrite, owner, again.id, again.epoch, paid)
    assert told.value == '"paid"'
    assert [(step.name, step.value) for step in journal(world, job.id)] == [("load", "1"), ("charge", '"paid"')]


def test_steps_survive_a_replay_unless_they_are_forgotten(world: World) -> None:
    owner, job = running(world)
    record(world, owner, job, entry())
    world.finish(owner, job, Failed("permanent", ERROR))
    world.run(actions.retry, job.id)
    assert len(journal(world, job.id)) == 1
    world.run(steps.forget, job.id)
    assert journal(world, job.id) == []


def test_steps_go_with_their_job(world: World) -> None:
    owner, job = running(world)
    record(world, owner, job, entry())
    world.finish(owner, job, Done("1"))
    world.run(actions.delete, job.id)
    assert world.sql("select count(*) from holdfast_step") == [(0,)]


# -- fork


def _three_steps(world: World) -> tuple[str, Claimed]:
    owner, job = running(world, payload='{"n": 1}', priority=7, max_attempts=3)
    for position, name in enumerate(("a", "b", "c"), start=1):
        record(world, owner, job, entry(name, value=f'"{name}"', position=position))
    return owner, job


@pytest.mark.parametrize(
    ("from_step", "kept"), [("a", []), ("b", ["a"]), ("c", ["a", "b"]), ("b#1", ["a"]), ("step:c#1", ["a", "b"])]
)
def test_a_fork_keeps_what_came_before_the_step(world: World, from_step: str, kept: list[str]) -> None:
    owner, job = _three_steps(world)
    fork = world.run(steps.fork, job.id, from_step, ids.new())
    assert [step.name for step in journal(world, fork)] == kept
    assert len(journal(world, job.id)) == 3
    made = world.job(fork)
    assert (made.state, made.task, made.payload, made.priority) == (JobState.READY, "work", '{"n": 1}', 7)
    assert (made.attempts, made.max_attempts) == (0, 3)
    taken = world.take(owner)
    # A first epoch would say that there is nothing to read.
    assert taken.id == fork and taken.epoch > 1


def test_a_fork_from_a_step_that_was_never_made_is_refused(world: World) -> None:
    _, job = _three_steps(world)
    with pytest.raises(NotFound):
        world.run(steps.fork, job.id, "z", ids.new())
    assert world.jobs() == 1


def test_a_fork_into_a_closed_queue_is_refused(world: World) -> None:
    _, job = _three_steps(world)
    world.run(actions.set_queue_state, "default", "draining")
    with pytest.raises(QueueClosed):
        world.run(steps.fork, job.id, "b", ids.new())
    assert world.jobs() == 1


# -- crashes


class Crash(Exception):
    """The process died here."""


@pytest.mark.parametrize("what", ["record", "record_enqueue", "fork"])
def test_a_crash_at_any_statement_leaves_all_or_nothing(each_store: World, what: str) -> None:
    world = each_store
    point = 0
    while True:
        world.wipe()
        owner, job = running(world)
        record(world, owner, job, entry("first"))
        before = _everything(world)
        died = _run_until(world, what, owner, job, point)
        if not died:
            break
        assert _everything(world) == before, f"statement {point} of {what}"
        point += 1
    assert point > 0
    assert _everything(world) != before


def _run_until(world: World, what: str, owner: str, job: Claimed, point: int) -> bool:
    import asyncio

    count = 0

    def tick(*_: object) -> None:
        nonlocal count
        if count == point:
            raise Crash
        count += 1

    store = FaultyStore(world.store, tick, tick)
    ops = {
        "record": lambda tx: steps.record(tx, owner, job.id, job.epoch, entry("next", position=2)),
        "record_enqueue": lambda tx: steps.record_enqueue(
            tx, owner, job.id, job.epoch, entry("", kind="enqueue", position=2), spec(task="child")
        ),
        "fork": lambda tx: steps.fork(tx, job.id, "first", ids.new()),
    }
    try:
        asyncio.run(store.awrite(Op(ops[what])))
    except Crash:
        return True
    return False


def _everything(world: World) -> tuple[object, object]:
    jobs = world.sql("select id, state, epoch from holdfast_any_job order by id")
    return jobs, world.sql("select job_id, key, value from holdfast_step order by job_id, key")
