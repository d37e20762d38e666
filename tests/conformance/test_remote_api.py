"""The lease API: what a worker in another language does, and what the store makes of it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from holdfast import App
from holdfast.client.lines import AwaitingLine, BlockingLine
from holdfast.clock import SECOND
from holdfast.errors import (
    HoldfastError,
    InvalidInput,
    LeaseLost,
)  # fmt: skip
from holdfast.model.jobs import JobState
from holdfast.model.remote import Done, FrameDraft  # fmt: skip
from holdfast.model.values import instant_of
from holdfast.storage.port import Listener
from holdfast.worker.maintenance.rescuer import Rescuer

from .lease_kit import Elsewhere
from .racing import all_at_once
from .world import World

# -- register


def test_a_registered_worker_is_a_worker_like_any_other(elsewhere: Elsewhere) -> None:
    registered = elsewhere.remote.register(
        "rusty", ["mail", "default"], ["work"], capabilities=["gpu"], resident=["llama"], concurrency=3, lease=12,
        versions={"work": "1.2"}, host="box", client="rust 0.3",
    )  # fmt: skip
    (worker,) = elsewhere.app.workers.list()
    assert (registered.worker, registered.lease, registered.beat_every) == (worker.id, 12.0, 4.0)
    assert (worker.name, worker.host, worker.version, worker.concurrency) == ("rusty", "box", "rust 0.3", 3)
    assert (worker.queues, worker.tasks) == (("mail", "default"), ("work",))
    assert (worker.capabilities, worker.resident, worker.versions) == (("gpu",), ("llama",), {"work": "1.2"})
    assert worker.state == "alive"


@pytest.mark.parametrize(
    "wrong",
    [
        {"queues": []}, {"queues": "default"}, {"queues": ["a b"]}, {"queues": ["webhooks"]}, {"queues": ["outbox.x"]},
        {"tasks": []}, {"tasks": ["webhook.deliver"]}, {"tasks": ["\x00"]}, {"concurrency": 0}, {"concurrency": 10_001},
        {"lease": 1}, {"lease": 3_601}, {"lease": float("nan")}, {"capabilities": ["task:x"]}, {"resident": "llama"},
        {"versions": {"work": "not a version"}},
    ],
    ids=str,
)  # fmt: skip
def test_a_worker_that_cannot_be_is_refused_before_anything_is_written(here: Elsewhere, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        here.worker(**wrong)
    assert here.app.workers.list() == []


def test_there_are_no_leases_in_the_view_of_one_tenant(here: Elsewhere) -> None:
    assert not hasattr(here.app.scoped("acme"), "remote")


# -- claim


def test_a_claimed_job_says_all_that_its_run_needs(elsewhere: Elsewhere) -> None:
    worker = elsewhere.worker()
    job_id = elsewhere.enqueue(
        {"to": "ann", "n": 2**70}, tags=["a", "b"], timeout=5, deadline=60, max_attempts=3, priority=7, tenant="acme"
    )
    job = elsewhere.take(worker)
    assert (job.id, job.task, job.queue, job.tenant) == (job_id, "work", "default", "acme")
    assert job.arguments == {"to": "ann", "n": 2**70}
    assert (job.attempt, job.max_attempts, job.generation, job.priority) == (1, 3, 0, 7)
    assert (job.timeout, job.deadline, job.tags) == (5.0, instant_of(elsewhere.world.now + 60 * SECOND), ("a", "b"))
    assert job.handle.startswith(f"hf2.{elsewhere.world.backend}.")
    stored = elsewhere.job(job_id)
    assert (stored.state, stored.owner) == (JobState.RUNNING, worker)


def test_a_claim_takes_no_more_than_there_is_room_for(elsewhere: Elsewhere) -> None:
    worker = elsewhere.worker(concurrency=3)
    for _ in range(5):
        elsewhere.enqueue()
    first = elsewhere.remote.claim(worker, 2)
    assert [len(first), len(elsewhere.remote.claim(worker, 10)), len(elsewhere.remote.claim(worker, 10))] == [2, 1, 0]
    elsewhere.remote.finish(first[0].handle, Done())
    assert len(elsewhere.remote.claim(worker, 10)) == 1


def test_a_queue_comes_after_those_before_it_and_priority_within_it(here: Elsewhere) -> None:
    worker = here.worker(queues=["first", "second"])
    late = here.enqueue(queue="second", priority=9)
    low = here.enqueue(queue="first")
    high = here.enqueue(queue="first", priority=1)
    assert [here.take(worker).id for _ in range(3)] == [high, low, late]


def test_limits_hold_for_workers_elsewhere(here: Elsewhere) -> None:
    worker = here.worker()
    for _ in range(4):
        here.enqueue(concurrency_key="one", concurrency=2)
    first = here.remote.claim(worker, 10)
    assert len(first) == 2
    here.remote.finish(first[0].handle, Done())
    assert len(here.remote.claim(worker, 10)) == 1


def test_what_cannot_start_does_not_hide_what_can(here: Elsewhere) -> None:
    worker = here.worker()
    here.enqueue(concurrency_key="one", concurrency=1)
    here.take(worker)
    for _ in range(3):
        here.enqueue(concurrency_key="one", concurrency=1, priority=9)
    here.enqueue(deadline=1, priority=8)
    here.app.budgets.set("team", {"tokens": 1})
    here.enqueue(reserve={"team": {"tokens": 2}}, priority=7)
    here.world.clock.advance(2)
    fine = here.enqueue()
    assert here.take(worker).id == fine


def test_a_rate_holds_for_workers_elsewhere(here: Elsewhere) -> None:
    worker = here.worker()
    here.app.limits.set_rate("api", capacity=2, per_second=1)
    for _ in range(3):
        here.enqueue(rate="api")
    assert len(here.remote.claim(worker, 10)) == 2
    here.world.clock.advance(1)
    assert len(here.remote.claim(worker, 10)) == 1


def test_a_paused_queue_gives_nothing(here: Elsewhere) -> None:
    worker = here.worker()
    here.enqueue()
    here.app.queues.pause("default")
    assert here.remote.claim(worker, 1) == []
    here.app.queues.resume("default")
    assert len(here.remote.claim(worker, 1)) == 1


def test_jobs_go_to_workers_that_are_able_to_run_them(here: Elsewhere) -> None:
    plain, able = here.worker(), here.worker(capabilities=["gpu"])
    job_id = here.enqueue(requires=["gpu"])
    assert here.remote.claim(plain, 1) == []
    assert here.take(able).id == job_id


def test_a_worker_stays_with_the_affinity_that_it_has_loaded(here: Elsewhere) -> None:
    worker = here.worker(concurrency=1, resident=["llama"])
    here.enqueue(affinity="mistral")
    loaded = here.enqueue(affinity="llama")
    job = here.take(worker)
    assert job.id == loaded
    here.remote.finish(job.handle, Done())
    here.take(worker)
    (row,) = here.app.workers.list()
    assert row.resident == ("mistral",)


def test_a_job_whose_task_the_worker_does_not_have_is_left_to_others_at_no_cost(here: Elsewhere) -> None:
    worker, other = here.worker(tasks=["other"]), here.worker()
    job_id = here.enqueue()
    assert here.remote.claim(worker, 1) == []
    assert (here.job(job_id).state, here.job(job_id).attempts) == (JobState.READY, 0)
    assert here.remote.claim(worker, 1) == []
    assert here.take(other).id == job_id


def test_a_job_past_its_deadline_expires_instead_of_starting(here: Elsewhere) -> None:
    worker = here.worker()
    job_id = here.enqueue(deadline=10)
    here.world.clock.advance(11)
    assert here.remote.claim(worker, 1) == []
    assert here.job(job_id).state is JobState.EXPIRED


def test_the_results_of_other_jobs_are_in_the_arguments(elsewhere: Elsewhere) -> None:
    worker = elsewhere.worker()
    with elsewhere.app.flow("pair") as flow:
        first = flow.add(elsewhere.task.job(n=1))
        second = flow.add(elsewhere.task.job(n=first.output), after=first)
    elsewhere.remote.finish(elsewhere.take(worker).handle, Done({"deep": [1, 2]}))
    job = elsewhere.take(worker)
    assert (job.id, job.arguments) == (second.id, {"n": {"deep": [1, 2]}})
    assert job.flow is not None


def test_what_a_job_reserves_is_set_aside_before_it_is_given_out(elsewhere: Elsewhere) -> None:
    worker = elsewhere.worker()
    elsewhere.app.budgets.set("team", {"tokens": 100})
    fits = elsewhere.enqueue(reserve={"team": {"tokens": 80}})
    waits = elsewhere.enqueue(reserve={"team": {"tokens": 80}})
    (job,) = elsewhere.remote.claim(worker, 10)
    assert job.id == fits
    assert (elsewhere.job(waits).state, elsewhere.job(waits).attempts) == (JobState.BLOCKED, 0)
    elsewhere.remote.settle(job.handle, "team", {"tokens": 5})
    elsewhere.remote.settle(job.handle, "team", {"tokens": 5})
    elsewhere.remote.finish(job.handle, Done())
    assert elsewhere.app.budgets.get("team")["tokens"].spent == 5
    assert elsewhere.take(worker).id == waits


def test_a_quota_holds_for_workers_elsewhere(here: Elsewhere) -> None:
    worker = here.worker()
    here.app.quotas.set("calls", concurrency=1)
    for _ in range(2):
        here.enqueue(quota="calls")
    (job,) = here.remote.claim(worker, 10)
    here.remote.finish(job.handle, Done())
    assert len(here.remote.claim(worker, 10)) == 1


def test_a_job_that_asks_for_a_budget_that_there_is_not_fails_as_it_does_in_our_own_workers(here: Elsewhere) -> None:
    worker = here.worker()
    job_id = here.enqueue(reserve={"nowhere": {"tokens": 1}}, max_attempts=1)
    assert here.remote.claim(worker, 1) == []
    assert (here.job(job_id).state, here.job(job_id).reason) == (JobState.FAILED, "exhausted")


def test_a_payload_that_cannot_be_read_fails_its_job_and_no_other(here: Elsewhere) -> None:
    worker = here.worker()
    broken, fine = here.world.add(payload="[1, 2]"), here.enqueue()
    assert [job.id for job in here.remote.claim(worker, 10)] == [fine]
    assert (here.job(broken).state, here.job(broken).reason) == (JobState.FAILED, "undecodable")


def test_a_claim_whose_answer_was_lost_is_read_again_by_its_id(elsewhere: Elsewhere) -> None:
    worker = elsewhere.worker()
    elsewhere.enqueue()
    elsewhere.enqueue()
    first = elsewhere.remote.claim(worker, 1, claim_id="c1")
    assert elsewhere.remote.claim(worker, 1, claim_id="c1") == first
    assert elsewhere.remote.claim(worker, 1, claim_id="c2") != first


def test_rescued_jobs_are_given_with_the_others_as_far_as_there_is_room(here: Elsewhere) -> None:
    lost, worker = here.worker(), here.worker(concurrency=100)
    rescued = {here.enqueue() for _ in range(10)}
    here.remote.claim(lost, 10)
    held = here.enqueue(priority=5)
    assert here.take(worker).id == held
    here.world.rescue(lost, certain=True)
    here.world.clock.advance(2)
    fresh = {here.enqueue() for _ in range(5)}
    assert {job.id for job in here.remote.claim(worker, 20)} == rescued | fresh


def test_a_worker_that_holds_a_job_is_given_fresh_ones_while_suspects_wait(here: Elsewhere) -> None:
    lost, worker = here.worker(), here.worker(queues=["other", "default"], concurrency=100)
    here.enqueue(queue="other")
    here.take(worker)
    suspect = here.enqueue()
    here.take(lost)
    here.world.lose_twice(lost)
    fresh = {here.enqueue() for _ in range(15)}
    assert {job.id for job in here.remote.claim(worker, 20)} == fresh
    assert here.take(here.worker()).id == suspect


def test_a_suspect_is_given_to_an_idle_worker_and_nothing_joins_it(here: Elsewhere) -> None:
    lost = here.worker()
    suspect = here.enqueue(priority=5)
    here.take(lost)
    here.world.lose_twice(lost)
    worker = here.worker()
    for _ in range(3):
        here.enqueue()
    job = here.take(worker)
    assert job.id == suspect
    assert here.remote.claim(worker, 10) == []
    here.remote.finish(job.handle, Done())
    assert len(here.remote.claim(worker, 10)) == 3


def test_a_total_is_split_over_workers_elsewhere_too(here: Elsewhere) -> None:
    one, two = here.worker(queues=["default", "other"]), here.worker()
    here.app.limits.set_total("default", 3)
    for _ in range(6):
        here.enqueue()
    other = here.enqueue(queue="other")
    first, second = here.remote.claim(one, 10), here.remote.claim(two, 10)
    assert sorted([sum(job.queue == "default" for job in first), len(second)]) == [1, 2]
    assert other in {job.id for job in first}
    assert here.remote.claim(one, 10) == here.remote.claim(two, 10) == []


def test_a_grant_is_for_the_worker_of_that_name(here: Elsewhere) -> None:
    worker, named = here.worker(), here.remote.register("chosen", ["default"], ["work"]).worker
    job_id = here.enqueue()
    here.app.jobs.grant(job_id, worker="chosen", expires=60)
    assert here.remote.claim(worker, 1) == []
    assert here.take(named).id == job_id


def test_two_claims_of_one_worker_at_once_take_no_more_than_there_is_room_for(each_store: World) -> None:
    here = Elsewhere(each_store)
    worker = here.worker(concurrency=3)
    for _ in range(12):
        here.enqueue()
    claims = [lambda: here.app.remote.claim(worker, 3)] * 4
    found = [job.id for jobs in all_at_once(claims) for job in jobs]
    assert len(found) == len(set(found)) == 3


@pytest.mark.parametrize(("limit", "wait"), [(0, 0), (1_001, 0), (True, 0), (1, 31), (1, -1), (1, float("inf"))])
def test_a_claim_that_asks_for_too_much_is_refused(here: Elsewhere, limit: int, wait: float) -> None:
    with pytest.raises(InvalidInput):
        here.remote.claim(here.worker(), limit, wait=wait)


# -- waiting for jobs


def test_a_claim_that_waits_is_woken_by_an_enqueue(each_store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Elsewhere(each_store)
    worker = here.worker(lease=60)
    wait, heard = BlockingLine.wait_for_notice, []

    async def wait_for_notice(line: BlockingLine, listener: Listener, timeout: float) -> bool:
        if not heard:
            here.enqueue()
        heard.append(await wait(line, listener, timeout))
        return heard[-1]

    monkeypatch.setattr(BlockingLine, "wait_for_notice", wait_for_notice)
    assert len(here.remote.claim(worker, 1, wait=30)) == 1
    assert heard[-1], "it was found by looking, not by the wakeups"


def test_a_claim_that_waits_on_an_event_loop_is_woken_too(
    each_store: World, lease_runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = Elsewhere(each_store, lease_runner)
    worker = here.worker(lease=60)
    wait, heard = AwaitingLine.wait_for_notice, []

    async def wait_for_notice(line: AwaitingLine, listener: Listener, timeout: float) -> bool:
        if not heard:
            await here.app.aenqueue(here.task.job())
        heard.append(await wait(line, listener, timeout))
        return heard[-1]

    monkeypatch.setattr(AwaitingLine, "wait_for_notice", wait_for_notice)
    assert len(here.remote.claim(worker, 1, wait=30)) == 1
    assert heard[-1], "it was found by looking, not by the wakeups"


def test_a_claim_that_waits_takes_what_comes_due_meanwhile(each_store: World, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Elsewhere(each_store)
    worker = here.worker(lease=60)
    here.enqueue(delay=1)
    asked: list[float] = []

    async def wait_for_notice(line: BlockingLine, listener: Listener, timeout: float) -> bool:
        asked.append(timeout)
        each_store.clock.advance(timeout)
        return False

    monkeypatch.setattr(BlockingLine, "wait_for_notice", wait_for_notice)
    assert len(here.remote.claim(worker, 1, wait=30)) == 1
    assert asked == [1.0]


def test_a_claim_comes_back_empty_when_its_time_is_over(elsewhere: Elsewhere) -> None:
    assert elsewhere.remote.claim(elsewhere.worker(), 1, wait=0.05) == []


# -- beat


def test_a_beat_tells_what_is_owned_cancelled_and_lost(elsewhere: Elsewhere) -> None:
    worker = elsewhere.worker()
    ids = [elsewhere.enqueue() for _ in range(3)]
    kept, cancelled, taken = elsewhere.remote.claim(worker, 3)
    assert [kept.id, cancelled.id, taken.id] == ids
    elsewhere.app.jobs.cancel(cancelled.id)
    elsewhere.app.jobs.revoke(taken.id)
    answer = elsewhere.remote.beat(worker, [kept.handle, cancelled.handle, taken.handle])
    assert {job.handle for job in answer.jobs} == {kept.handle, cancelled.handle}
    assert (answer.cancelled, answer.lost) == ((cancelled.handle,), (taken.handle,))


def test_a_beat_and_a_claim_renew_the_lease(elsewhere: Elsewhere) -> None:
    worker = elsewhere.worker(lease=30)
    for renew in (elsewhere.remote.beat, elsewhere.remote.claim):
        elsewhere.world.clock.advance(20)
        renew(worker)
        (row,) = elsewhere.app.workers.list()
        assert row.lease_until == elsewhere.world.instant + timedelta(seconds=30)


def test_a_worker_that_was_declared_dead_hears_so(elsewhere: Elsewhere) -> None:
    worker, job = elsewhere.running()
    elsewhere.app.workers.mark_dead(worker, "it hangs")
    for call in (elsewhere.remote.beat, elsewhere.remote.claim):
        with pytest.raises(LeaseLost):
            call(worker)
    with pytest.raises(LeaseLost):
        elsewhere.remote.finish(job.handle, Done())


def test_an_unknown_worker_can_do_nothing(elsewhere: Elsewhere) -> None:
    for call in (elsewhere.remote.beat, elsewhere.remote.claim):
        with pytest.raises(LeaseLost):
            call("0" * 32)
    assert elsewhere.remote.deregister("0" * 32) == 0


# -- rescue


def test_a_worker_that_stops_beating_is_rescued_by_the_ordinary_rescuer(each_store: World) -> None:
    here = Elsewhere(each_store)
    worker, job = here.running()
    other = here.worker(lease=600)
    rescuer = Rescuer(each_store.store, lambda: other, lambda: 3600.0, lambda: 0.0, each_store.clock, interval=10)
    asyncio.run(rescuer.run_once())
    assert here.job(job.id).state is JobState.RUNNING, "its lease has not run out"
    each_store.clock.advance(31)
    asyncio.run(rescuer.run_once())
    asyncio.run(rescuer.run_once())
    assert worker not in {row.id for row in here.app.workers.list()}
    again = here.take(other)
    assert (again.id, again.attempt) == (job.id, 2)
    for call in (
        lambda: here.remote.finish(job.handle, Done()),
        lambda: here.remote.emit(job.handle, [FrameDraft("late")]),
        lambda: here.remote.progress(job.handle, 50),
        lambda: here.remote.summarize(job.handle, {"a": 1}),
        lambda: here.remote.artifact(job.handle, "late", b"x"),
        lambda: here.remote.artifact(job.handle, "later", b"x" * 300_000),
        lambda: here.remote.record_step(job.handle, "late", 1),
        lambda: here.remote.waitpoint(job.handle, "late"),
        lambda: here.remote.suspend(job.handle, "late"),
    ):
        with pytest.raises(LeaseLost):
            call()
    assert here.remote.finish(again.handle, Done("mine")).state == "succeeded"
    assert here.app.artifacts.list(job.id)[1:] == []


# -- all together


def test_every_call_has_an_awaiting_twin() -> None:
    names = {name for name in dir(App(":memory:").remote) if not name.startswith("_")}
    alone = {name for name in names if f"a{name}" not in names and name.removeprefix("a") not in names}
    assert alone == set()
    assert len(names) == 2 * 15


def test_nothing_here_raises_anything_but_our_own_errors(here: Elsewhere) -> None:
    _, job = here.running()
    calls = here.remote
    for hostile in ("", "\x00", "a" * 10_000, "\ud800", "\u202e", "'; drop table holdfast_job; --"):
        for call in (
            lambda text: calls.beat(text), lambda text: calls.claim(text), lambda text: calls.deregister(text),
            lambda text: calls.finish(text, Done()), lambda text: calls.emit(job.handle, [FrameDraft("x", text)]),
            lambda text: calls.spend(job.handle, text, {"tokens": 1}, key="k"),
            lambda text: calls.spend(job.handle, "team", {text: 1}, key=text),
            lambda text: calls.artifact(job.handle, text, b"", content_type=text),
            lambda text: calls.record_step(job.handle, text, text), lambda text: calls.waitpoint(job.handle, text),
            lambda text: calls.claim("w" * 32, claim_id=text), lambda text: calls.progress(job.handle, stage=text),
        ):  # fmt: skip
            try:
                call(hostile)
            except HoldfastError as error:
                assert type(error).__name__ not in ("StorageError", "HoldfastError"), error
