"""Signals: who may send one, what is refused, and what is remembered."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from holdfast.clock import SECOND
from holdfast.errors import (
    JobEnded,
    NotFound,
    PayloadMismatch,
    SignalConflict,
    TooManySignals,
)
from holdfast.model.jobs import JobState
from holdfast.model.signals import MAX_SIGNALS, Signal
from holdfast.rules.schemas import schema_of
from holdfast.storage.ops.jobs import actions
from holdfast.storage.ops.signals import signals, waitpoints
from holdfast.storage.port import Op
from tests.patience import SOON

from .racing import all_at_once, open_transaction
from .waiting_kit import HOUR, payloads, pending_ids, redeem, send, suspended, wait_for, waiter
from .world import World

FINISHED = [JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED, JobState.EXPIRED, JobState.SKIPPED]


@pytest.mark.parametrize("state", FINISHED)
def test_a_finished_job_takes_no_signal_and_says_how_it_ended(world: World, state: JobState) -> None:
    placed = world.place(state)
    with pytest.raises(JobEnded) as caught:
        send(world, placed.id)
    assert (caught.value.job_id, caught.value.state) == (placed.id, state)
    assert world.sql("select count(*) from holdfast_signal") == [(0,)]


@pytest.mark.parametrize("state", [JobState.READY, JobState.BLOCKED, JobState.RUNNING, JobState.SUSPENDED])
def test_a_live_job_takes_signals_in_every_state(world: World, state: JobState) -> None:
    placed = world.place(state)
    assert send(world, placed.id).seq == 1


def test_nobody_is_not_found(world: World) -> None:
    with pytest.raises(NotFound):
        send(world, "nobody")


def test_a_job_of_another_tenant_is_as_if_it_did_not_exist(world: World) -> None:
    job = waiter(world, tenant="acme")
    with pytest.raises(NotFound) as foreign:
        send(world, job.id, tenant="rival")
    with pytest.raises(NotFound) as missing:
        send(world, "nobody", tenant="rival")
    assert str(foreign.value).replace(job.id, "nobody") == str(missing.value)
    assert send(world, job.id, tenant="acme").seq == 1
    assert send(world, job.id).seq == 2


def test_d7_a_replayed_signal_counts_once(world: World) -> None:
    """Two signals are needed, and the sender of the first repeats himself: that was counted twice, elsewhere."""
    job = suspended(world, wait_for("vote", needed=2))
    first = send(world, job.id, "vote", "1", key="ballot-1")
    again = send(world, job.id, "vote", "1", key="ballot-1")
    assert (again.seq, again.again, again.effect) == (first.seq, True, "stored")
    assert job.state == "suspended"
    assert send(world, job.id, "vote", "2", key="ballot-2").effect == "resumed"
    assert payloads(job.answer()) == [1, 2]


def test_a_replay_is_recognised_after_the_job_has_gone_on_and_ended(world: World) -> None:
    job = suspended(world, wait_for("vote"))
    send(world, job.id, "vote", key="ballot")
    world.run(actions.cancel, job.id)
    assert send(world, job.id, "vote", key="ballot").again
    with pytest.raises(JobEnded):
        send(world, job.id, "vote", key="other")


def test_d7_replays_at_the_same_time_count_once(two_worlds: tuple[World, World]) -> None:
    here, there = two_worlds
    job = suspended(here, wait_for("vote", needed=2))
    answers = all_at_once([partial(send, world, job.id, "vote", key="ballot") for world in (here, there) * 3])
    assert {answer.seq for answer in answers} == {1}
    assert sorted(answer.again for answer in answers) == [False] + [True] * 5
    assert job.state == "suspended"


@pytest.mark.parametrize(("name", "payload"), [("vote", "2"), ("veto", "1")])
def test_the_same_key_with_something_else_is_a_conflict(world: World, name: str, payload: str) -> None:
    job = waiter(world)
    send(world, job.id, "vote", "1", key="ballot")
    with pytest.raises(SignalConflict):
        send(world, job.id, name, payload, key="ballot")


def test_a_key_belongs_to_one_job(world: World) -> None:
    first, second = waiter(world), waiter(world)
    assert not send(world, first.id, key="k").again
    assert not send(world, second.id, key="k").again


def test_a_mailbox_takes_ten_thousand_signals_and_not_one_more(each_store: World) -> None:
    world = each_store
    job = waiter(world)
    _fill(world, job.id, MAX_SIGNALS - 1)
    place = job.open()
    assert send(world, job.id, key="last").seq == MAX_SIGNALS
    with pytest.raises(TooManySignals) as caught:
        send(world, job.id)
    assert caught.value.limit == MAX_SIGNALS
    with pytest.raises(TooManySignals):
        redeem(world, job.open("other").token)
    assert send(world, job.id, key="last").again
    assert place.id not in pending_ids(world)


def test_a_full_mailbox_of_other_signals_is_searched_quickly(each_store: World) -> None:
    """Only the index is read: ten thousand payloads would be 640 MB."""
    world = each_store
    job = waiter(world)
    _fill(world, job.id, MAX_SIGNALS - 1)
    assert job.take(wait_for("approval")) is None
    send(world, job.id)
    assert payloads(job.take(wait_for("approval"))) == [True]


def test_a_payload_that_does_not_fit_is_refused_at_the_sender(world: World) -> None:
    job = suspended(world, wait_for("amount", schema=schema_of(int)))
    with pytest.raises(PayloadMismatch, match="expected integer, got string"):
        send(world, job.id, "amount", '"many"')
    assert job.state == "suspended"
    assert world.sql("select count(*) from holdfast_signal") == [(0,)]
    assert send(world, job.id, "amount", "7").effect == "resumed"


def test_a_signal_that_is_not_waited_for_is_held_to_no_type(world: World) -> None:
    job = suspended(world, wait_for("amount", schema=schema_of(int)))
    assert send(world, job.id, "gossip", '"anything"').effect == "stored"


def test_a_misfit_does_not_use_up_a_waitpoint(world: World) -> None:
    job = waiter(world)
    place = job.open(schema=schema_of(bool))
    with pytest.raises(PayloadMismatch):
        redeem(world, place.token, '"perhaps"')
    assert pending_ids(world) == [place.id]
    assert redeem(world, place.token, "false") is not None


def test_the_type_of_a_wait_becomes_the_schema_of_its_waitpoint(world: World) -> None:
    job = waiter(world)
    place = job.open()
    assert world.read(waitpoints.pending)[0].schema is None
    job.suspend(wait_for(waitpoints=(place,), schema=schema_of(bool)))
    (found,) = world.read(waitpoints.pending)
    assert (found.schema, found.awaited) == ({"type": "boolean"}, True)
    with pytest.raises(PayloadMismatch):
        redeem(world, place.token, "1")


def test_a_signal_by_name_arrives_at_the_open_waitpoint_of_that_name(world: World) -> None:
    job = waiter(world)
    place = job.open("approval")
    job.suspend(wait_for(waitpoints=(place,)))
    assert send(world, job.id, "approval").effect == "resumed"
    assert redeem(world, place.token) is None


def test_a_waitpoint_can_take_many_signals_if_it_is_opened_so(world: World) -> None:
    job = waiter(world)
    place = job.open("vote", once=False)
    job.suspend(wait_for(waitpoints=(place,), needed=2, distinct="sources"))
    assert [redeem(world, place.token, source=who) is not None for who in ("bob", "bob", "eve")] == [True] * 3
    assert job.state == "ready"
    assert redeem(world, place.token, source="mallory") is None


def test_a_waitpoint_opened_again_by_the_same_step_is_the_same(world: World) -> None:
    job = waiter(world)
    first = job.open()
    world.clock.advance(60)
    assert job.open() == first
    assert world.sql("select count(*) from holdfast_waitpoint") == [(1,)]
    assert world.sql("select key, kind, name from holdfast_step") == [("waitpoint:approval#1", "waitpoint", "approval")]


def test_no_token_is_stored_anywhere(world: World) -> None:
    job = waiter(world)
    token = job.open().token
    mac = token.rpartition(".")[2]
    rows = [
        row
        for table in ("job", "step", "waitpoint", "signal", "key", "audit", "wait")
        for row in world.sql(f"select * from holdfast_{table}")
    ]
    assert rows
    assert mac not in repr(rows)


def test_pending_waitpoints_are_listed_without_tokens_by_page_and_tenant(world: World) -> None:
    ours, theirs = waiter(world, tenant="acme"), waiter(world, tenant="rival")
    mine = [ours.open(f"p{n}") for n in range(3)]
    other = theirs.open()
    page = world.read(waitpoints.pending, tenant="acme", limit=2)
    assert [place.id for place in page] == [place.id for place in mine[:2]]
    assert pending_ids(world, tenant="acme", after=page[-1].id) == [mine[2].id]
    assert pending_ids(world, job_id=theirs.id) == [other.id]
    assert pending_ids(world, job_id=theirs.id, tenant="acme") == []
    assert "token" not in repr(page) and mine[0].token not in repr(page)


def test_an_expired_waitpoint_is_not_pending(world: World) -> None:
    job = waiter(world)
    place = job.open(expires=HOUR)
    world.clock.advance(3600)
    assert pending_ids(world) == []
    assert redeem(world, place.token) is None
    assert send(world, job.id, "approval").seq == 1


def test_the_waitpoints_of_a_job_that_ends_are_closed(world: World) -> None:
    job = waiter(world)
    place = job.open()
    job.suspend(wait_for(waitpoints=(place,)))
    world.run(actions.cancel, job.id)
    assert pending_ids(world) == []
    assert redeem(world, place.token) is None


def test_a_replayed_job_opens_its_waitpoint_anew_and_old_tokens_stay_worthless(world: World) -> None:
    job = waiter(world)
    old = job.open()
    world.run(actions.cancel, job.id, force=True)
    world.run(actions.retry, job.id)
    assert redeem(world, old.token) is None
    job.go_on()
    new = job.open()
    assert (new.id, new.token != old.token) == (old.id, True)
    assert redeem(world, old.token) is None
    assert redeem(world, new.token) is not None


def test_the_mailbox_is_listed_without_payloads(world: World) -> None:
    job = waiter(world)
    send(world, job.id, "a", '"secret"', source="bob")
    send(world, job.id, "b")
    job.take(wait_for("a"))
    found = world.read(signals.mailbox, job.id)
    assert [(item.seq, item.name, item.source, item.taken_by) for item in found] == [
        (2, "b", "", None),
        (1, "a", "bob", "wait:approval#1"),
    ]
    assert "secret" not in repr(found)


def test_expiry_is_by_the_stores_clock(world: World) -> None:
    place = waiter(world).open(expires=7 * SECOND)
    assert place.expires_at == world.instant + timedelta(seconds=7)


def _fill(world: World, job_id: str, n: int) -> None:
    """Put signals straight into a mailbox."""
    numbers = (
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < :n) "
        "insert into holdfast_signal (job_id, seq, name, payload, at) select :id, i, 'other', 'null', 0 from n"
    )
    world.sql(numbers, n=n, id=job_id)


def test_a_job_that_a_claim_passed_over_while_it_was_signalled_is_offered_again(on_postgres: World) -> None:
    world = on_postgres
    queue = world.name("queue")
    owner, job_id = world.worker(queues=[queue]), world.add(queue=queue)
    listener = world.store.wakeups.listen([f"queue:{queue}"])
    try:
        with open_transaction(world) as within:
            within(Op(lambda tx: signals.send(tx, job_id, Signal(name="approval"))))
            assert world.claim(owner, queues=[queue]) == []
        assert listener.wait(SOON)
        assert world.take(owner, queues=[queue]).id == job_id
    finally:
        listener.close()


# -- names that jobs wait for


def test_a_name_that_a_suspended_job_waits_for_is_pending_beside_the_waitpoints(world: World) -> None:
    first = suspended(world, wait_for("approval", schema='{"type": "boolean"}', timeout=HOUR), tenant="acme")
    second = waiter(world)
    place = second.open()
    third = suspended(world, wait_for("legal", "audit"))
    running = waiter(world)
    found = world.read(waitpoints.pending)
    assert [one.id for one in found] == [f"{first.id},approval", place.id, f"{third.id},audit", f"{third.id},legal"]
    assert (found[0].job_id, found[0].name, found[0].awaited) == (first.id, "approval", True)
    assert (found[0].schema, found[0].created_at, found[0].expires_at) == (
        {"type": "boolean"},
        world.instant,
        world.instant + timedelta(microseconds=HOUR),
    )
    assert found[2].expires_at is None
    assert pending_ids(world, tenant="acme") == [f"{first.id},approval"]
    assert pending_ids(world, job_id=third.id) == [f"{third.id},audit", f"{third.id},legal"]
    assert pending_ids(world, job_id=running.id) == []
    pages, after = [], ""
    while page := pending_ids(world, after=after, limit=1):
        pages += page
        after = page[-1]
    assert pages == [one.id for one in found]


def test_an_operator_answers_a_name_once_and_it_is_audited(world: World) -> None:
    job = suspended(world, wait_for("approval"))
    (id,) = pending_ids(world)
    sent = world.run(signals.answer, id, Signal(name="", payload="true", source="ada"), actor="ada", reason="fine")
    assert sent is not None
    assert (sent.job_id, sent.effect, job.state) == (job.id, "resumed", "ready")
    assert payloads(job.answer()) == [True]
    assert pending_ids(world) == []
    assert world.run(signals.answer, id, Signal(name=""), actor="bob", reason="") is None
    assert world.sql("select actor, action, target, reason from holdfast_audit") == [
        ("ada", "job.answer", job.id, "fine")
    ]


def test_of_a_wait_for_all_only_the_names_that_are_missing_are_pending(world: World) -> None:
    job = suspended(world, wait_for("legal", "audit", needed=0))
    send(world, job.id, "legal")
    assert pending_ids(world) == [f"{job.id},audit"]
    assert world.run(signals.answer, f"{job.id},legal", Signal(name=""), actor="bob", reason="") is None
    assert world.run(signals.answer, f"{job.id},audit", Signal(name=""), actor="bob", reason="") is not None
    assert job.state == "ready"


def test_a_name_is_pending_as_often_as_its_signal_is_needed(world: World) -> None:
    job = suspended(world, wait_for("vote", needed=2))
    send(world, job.id, "vote")
    assert pending_ids(world) == [f"{job.id},vote"]


def test_a_name_is_answered_by_its_own_tenant_and_within_its_time(world: World) -> None:
    job = suspended(world, wait_for("approval", timeout=HOUR), tenant="acme")
    id = f"{job.id},approval"
    with pytest.raises(NotFound):
        world.run(signals.answer, id, Signal(name="", tenant="other"), actor="bob", reason="")
    with pytest.raises(NotFound):
        world.run(signals.answer, "nothing,approval", Signal(name=""), actor="bob", reason="")
    assert world.run(signals.answer, f"{job.id},other", Signal(name=""), actor="bob", reason="") is None
    world.clock.advance(3600)
    assert pending_ids(world) == []


def test_what_does_not_fit_a_name_is_refused(world: World) -> None:
    job = suspended(world, wait_for("approval", schema='{"type": "boolean"}'))
    with pytest.raises(PayloadMismatch):
        world.run(signals.answer, f"{job.id},approval", Signal(name="", payload="1"), actor="bob", reason="")
    assert job.state == "suspended"
