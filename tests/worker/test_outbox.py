"""Putting events: in the caller's transaction, once, within a cap, and not at all where telemetry is off."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast.model import OutboxEvent, Outgoing
from holdfast.model.outbox import content_hash
from tests.conformance.world import begin

from .worker_kit import Shop


@pytest.fixture
def sent(shop: Shop) -> list[OutboxEvent]:
    """What the destination has got."""
    sent: list[OutboxEvent] = []

    @shop.app.destination("cloud", telemetry=["view"])
    async def cloud(events: list[OutboxEvent]) -> None:
        sent.extend(events)

    return sent


def lend(shop: Shop) -> Any:
    if shop.store.backend == "postgres":
        import psycopg

        return psycopg.connect(shop.url)
    return shop.app.connect()


def test_an_event_arrives_as_it_was_put(shop: Shop, sent: list[OutboxEvent]) -> None:
    job = shop.app.outbox("cloud").put({"b": 1, "a": [None]}, kind="note", key="k", tenant="acme")
    assert job is not None
    shop.app.drain()
    (event,) = sent
    assert (event.id, event.kind, event.data, event.key) == (job.id, "note", {"b": 1, "a": [None]}, "k")
    assert (event.attempt, event.tenant, event.created_at.timestamp()) == (1, "acme", shop.clock.now() / 1e6)
    assert event.hash == content_hash("note", {"a": [None], "b": 1})
    assert event.hash != content_hash("other", {"a": [None], "b": 1})


def test_an_event_goes_with_the_callers_transaction(shop: Shop, sent: list[OutboxEvent]) -> None:
    outbox, connection = shop.app.outbox("cloud"), lend(shop)
    for end in (connection.rollback, connection.commit):
        begin(connection)
        outbox.put("a", connection=connection)
        outbox.put_many(["b", "c"], connection=connection)
        end()
    connection.close()
    shop.app.drain()
    assert [event.data for event in sent] == ["a", "b", "c"]


def test_an_event_with_an_id_is_put_once_per_destination(shop: Shop, sent: list[OutboxEvent]) -> None:
    shop.app.declare_destination("other")
    outbox = shop.app.outbox("cloud")
    first, again = outbox.put("a", id="order-1"), outbox.put("a", id="order-1")
    assert first is not None
    assert again is not None
    assert (first.created, again.created, again.id) == (True, False, first.id)
    with pytest.raises(holdfast.errors.IdTaken):
        outbox.put("b", id="order-1")
    there = shop.app.outbox("other").put("b", id="order-1")
    assert there is not None
    assert there.created
    theirs = outbox.put("a", id="order-1", tenant="acme")
    assert theirs is not None
    assert theirs.created
    shop.app.drain()
    assert [event.id for event in sent] == ["order-1", "order-1"]


def test_the_cap_holds_for_single_and_many_puts(shop: Shop) -> None:
    shop.app.declare_destination("small", cap=20)
    outbox = shop.app.outbox("small")
    outbox.put_many(range(15))
    for n in range(5):
        outbox.put(n)
    with pytest.raises(holdfast.errors.OutboxFull) as full:
        outbox.put("one too many")
    assert (full.value.name, full.value.cap, full.value.retryable) == ("small", 20, True)
    with pytest.raises(holdfast.errors.OutboxFull):
        outbox.put_many(range(30))
    (counts,) = shop.app.outbox.list()
    assert counts.pending == 20


def test_far_from_the_cap_a_put_counts_nothing(shop: Shop) -> None:
    shop.app.declare_destination("large", cap=1_000)
    outbox = shop.app.outbox("large")
    outbox.put("a")
    assert outbox._gauge.take(0, shop.app.open())
    before = outbox._gauge._left
    outbox.put("b")
    assert outbox._gauge._left == before - 1


@pytest.mark.parametrize(("value", "kept"), [("false", 1), ("False", 2), ("0", 2), ("", 2), (None, 2)])
def test_only_the_exact_word_switches_telemetry_off(
    small_shop: Shop, monkeypatch: pytest.MonkeyPatch, value: str | None, kept: int
) -> None:
    small_shop.app.declare_destination("cloud", telemetry=["view"])
    if value is None:
        monkeypatch.delenv("HOLDFAST_CAPTURE", raising=False)
    else:
        monkeypatch.setenv("HOLDFAST_CAPTURE", value)
    outbox = small_shop.app.outbox("cloud")
    jobs = [outbox.put("seen", kind="view"), outbox.put("paid", kind="bill")]
    assert sum(job is not None for job in jobs) == kept
    assert len(outbox.put_many([Outgoing(1, "view"), Outgoing(2, "bill")])) == kept


def test_an_event_that_a_gate_holds_back_waits_at_no_cost(shop: Shop) -> None:
    approved: set[str] = set()
    sent: list[str] = []

    @shop.app.destination("cloud", gate=lambda event: event.kind != "bill" or event.data in approved)
    async def cloud(events: list[OutboxEvent]) -> None:
        sent.extend(event.data for event in events)

    outbox = shop.app.outbox("cloud")
    bill = outbox.put("b1", kind="bill")
    outbox.put("n1", kind="note")
    shop.app.drain()
    assert sent == ["n1"]
    assert bill is not None
    record = bill.status()
    assert (record.state, record.reason, record.attempts) == ("ready", "gate", 0)
    approved.add("b1")
    shop.clock.advance(15)
    shop.app.drain()
    assert sent == ["n1", "b1"]


def test_of_an_ordered_key_nothing_passes_one_that_a_gate_holds_back(shop: Shop) -> None:
    approved: set[str] = set()
    sent: list[str] = []

    @shop.app.destination("cloud", ordered=True, gate=lambda event: event.kind != "bill" or event.data in approved)
    async def cloud(events: list[OutboxEvent]) -> None:
        sent.extend(event.data for event in events)

    outbox = shop.app.outbox("cloud")
    outbox.put_many([Outgoing("a1", "bill", key="a"), Outgoing("a2", key="a"), Outgoing("b1", key="b"), "c1"])
    outbox.put("a0", key="a", tenant="acme")
    shop.app.drain()
    assert sorted(sent) == ["a0", "b1", "c1"]
    approved.add("a1")
    shop.clock.advance(15)
    shop.app.drain()
    assert sent[3:] == ["a1", "a2"]


def test_a_program_that_only_puts_keeps_the_order_that_the_worker_asks_for(shop: Shop) -> None:
    sent: list[int] = []
    elsewhere = holdfast.App(shop.url, clock=shop.clock)
    elsewhere.declare_destination("cloud", cap=100)
    elsewhere.outbox("cloud").put(1, key="k")
    elsewhere.outbox("cloud").put_many([Outgoing(2, key="k"), Outgoing(3, key="other")])
    elsewhere.close()

    @shop.app.destination("cloud", ordered=True, batch=1)
    async def cloud(events: list[OutboxEvent]) -> None:
        if events[0].data == 1 and events[0].attempt == 1:
            raise ConnectionError("down")
        sent.append(events[0].data)

    shop.app.drain()
    assert sent == [3]
    shop.clock.advance(100)
    shop.app.drain()
    assert sent == [3, 1, 2]


def test_an_entry_that_holds_no_event_is_abandoned_and_its_batch_goes_on(shop: Shop, sent: list[OutboxEvent]) -> None:
    broken, fine = shop.app.outbox("cloud").put_many(["a", "b"])
    shop.alter("update holdfast_job set payload = '[]' where id = ?", broken.id)
    shop.app.drain()
    assert (broken.status().reason, fine.state) == ("undecodable", "succeeded")
    assert [event.data for event in sent] == ["b"]


@pytest.mark.parametrize(
    "wrong", [{"batch": 0}, {"batch": 1_001}, {"cap": 0}, {"timeout": 0}, {"max_age": "soon"}, {"telemetry": "view"}]
)
def test_a_destination_that_cannot_be_is_refused(small_shop: Shop, wrong: dict[str, Any]) -> None:
    with pytest.raises(holdfast.HoldfastError):
        small_shop.app.destination("cloud", **wrong)(lambda events: None)


def test_an_unknown_outbox_is_named_with_those_there_are(small_shop: Shop) -> None:
    small_shop.app.declare_destination("cloud")
    with pytest.raises(holdfast.errors.ConfigError, match="'clod', only cloud"):
        small_shop.app.outbox("clod")


def test_what_cannot_be_said_in_json_is_refused_at_once(small_shop: Shop) -> None:
    small_shop.app.declare_destination("cloud")
    outbox = small_shop.app.outbox("cloud")
    for wrong in (object(), float("nan"), "x" * 300_000):
        with pytest.raises(holdfast.InvalidInput):
            outbox.put(wrong)
    with pytest.raises(holdfast.InvalidInput, match="too many"):
        outbox.put_many(range(10_001))


def test_what_is_put_in_a_view_is_the_tenants_and_its_ids_are_its_own(shop: Shop, sent: list[OutboxEvent]) -> None:
    whole, acme, odd = shop.app, shop.app.scoped("acme"), shop.app.scoped("Big & Co: acme")
    for app, data in ((whole, 1), (acme, 2), (odd, 3), (acme, 2)):
        app.outbox("cloud").put(data, id="acme:7")
    acme.outbox("cloud").put_many([4, Outgoing(5, id="8")], kind="note")
    shop.app.drain()
    assert {(event.tenant, event.id, event.data) for event in sent if event.data != 4} == {
        ("", "acme:7", 1), ("acme", "acme:7", 2), ("Big & Co: acme", "acme:7", 3), ("acme", "8", 5),
    }  # fmt: skip
    assert [one.delivered for one in acme.outbox.list()] == [3]
    assert [one.delivered for one in whole.outbox.list()] == [5]
    with pytest.raises(holdfast.InvalidInput, match="leave tenant= out"):
        acme.outbox("cloud").put(6, tenant="other")


def test_a_view_tries_again_and_revives_what_is_its_own(shop: Shop) -> None:
    answers = [holdfast.Fail("no"), ConnectionError("down")]

    @shop.app.destination("cloud", batch=2)
    async def cloud(events: list[OutboxEvent]) -> None:
        raise answers[0] if events[0].kind == "bad" else answers[1]

    for tenant in ("acme", "other"):
        shop.app.scoped(tenant).outbox("cloud").put(1, kind="bad")
        shop.app.drain()
        shop.app.scoped(tenant).outbox("cloud").put(2)
        shop.app.drain()
    acme = shop.app.scoped("acme")
    assert acme.outbox.retry("cloud", actor="ada") == 1
    with pytest.raises(holdfast.InvalidInput, match="older_than"):
        acme.outbox.drain("cloud", apply=True)
    assert dict(acme.outbox.drain("cloud", older_than=0, apply=True).kinds) == {"bad": 1}
    due = shop.app.jobs.find(holdfast.model.JobFilter(queue="outbox.cloud", state=holdfast.model.JobState.READY))
    assert sorted(job.tenant for job in due if job.not_before <= shop.clock.now()) == ["acme", "acme"]
    assert shop.app.scoped("other").outbox.list()[0].abandoned == 1
    assert {"outbox.retry", "outbox.drain"} <= {record.action for record in acme.audit.list()}
    assert not shop.app.scoped("other").audit.list(target_kind="outbox")


def test_the_cap_of_an_outbox_is_for_all_tenants_together(small_shop: Shop) -> None:
    small_shop.app.declare_destination("cloud", cap=3)
    for tenant in ("a", "b", "c"):
        small_shop.app.scoped(tenant).outbox("cloud").put(1)
    with pytest.raises(holdfast.errors.OutboxFull):
        small_shop.app.scoped("a").outbox("cloud").put(2)
