"""The event log: what is told, in which order, and that whoever reads along misses nothing."""

from __future__ import annotations

import json

import pytest

from holdfast.client.events import Events
from holdfast.clock import SECOND
from holdfast.errors import CursorExpired, InvalidCursor, InvalidInput
from holdfast.model.actions import Action, Order
from holdfast.model.events import Event
from holdfast.model.jobs import TERMINAL, Claimed, JobState
from holdfast.model.limits import ActiveLimits
from holdfast.model.outcomes import Done, Failed, Outcome, Retry
from holdfast.model.signals import Signal
from holdfast.model.streams import Batch, Progress
from holdfast.rules.lifecycle import MOVES
from holdfast.rules.lifecycle import Event as Move
from holdfast.rules.webhooks import call_tags, called_endpoint
from holdfast.storage.ops import events, queues, streams
from holdfast.storage.ops.audit import audit
from holdfast.storage.ops.jobs import actions, claims, enqueue
from holdfast.storage.ops.signals import signals
from holdfast.storage.port import Op

from .flow_kit import create
from .test_jobs_transitions import ACTS, circumstances
from .world import ERROR, World, begin, claim_request, spec

URL = "https://example.com/hook"


def set_level(world: World, queue: str, level: str | None) -> None:
    world.run(queues.change_queue, queue, {"events": level}, action="queue.set", actor="me")


def loud(*queue: str) -> ActiveLimits:
    return ActiveLimits(verbose_queues=frozenset(queue))


def report(world: World, owner: str, job: Claimed, serial: int, *stages: str) -> None:
    batch = Batch(
        job_id=job.id, owner=owner, epoch=job.epoch, generation=job.generation, attempt=job.attempt, writer="w",
        serial=serial, progress=Progress(stage=stages[-1]), stages=stages,
    )  # fmt: skip
    world.run(streams.append, [batch])


def told_of(world: World, job_id: str) -> list[str]:
    return [event.kind for event in world.events() if event.job == job_id]


# -- what is told


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_how_a_job_ends_is_told_without_being_asked_for(world: World, state: JobState) -> None:
    placed = world.place(state, task="work", tenant="acme", tags='["a","b"]')

    (event,) = [event for event in world.events() if event.job == placed.id]

    assert event.kind == f"job.{state}"
    assert (event.task, event.queue, event.tenant, event.tags) == ("work", placed.queue, "acme", ("a", "b"))
    assert event.state == state


def test_a_queue_that_tells_all_tells_the_whole_life_of_a_job(world: World) -> None:
    set_level(world, "default", "all")
    owner = world.worker()
    job_id = world.add()
    world.finish(owner, world.take(owner, standing=loud("default")), Retry(0, ERROR))
    job = world.take(owner, standing=loud("default"))
    world.finish(owner, job, Done("1"))

    story = [event for event in world.events() if event.job == job_id]

    assert [event.kind for event in story] == [
        "job.enqueued", "job.started", "job.retried", "job.started", "job.succeeded"
    ]  # fmt: skip
    assert [event.attempt for event in story] == [0, 1, 1, 2, 2]
    assert [event.worker for event in story] == [None, owner, owner, owner, owner]
    assert story[-1].epoch == job.epoch


@pytest.mark.parametrize("level", ["outcomes", "off", "all"])
def test_a_job_whose_webhook_asks_for_more_tells_its_whole_life_whatever_its_queue_tells(
    world: World, level: str
) -> None:
    set_level(world, "default", level)
    owner, standing = world.worker(), loud("default") if level == "all" else ActiveLimits()
    id = called_endpoint("", URL)
    job_id = world.add(tags=json.dumps(call_tags(id, ["job.started"])), webhook=(id, URL))
    world.finish(owner, world.take(owner, standing=standing), Retry(0, ERROR))
    world.finish(owner, world.take(owner, standing=standing), Done("1"))

    assert told_of(world, job_id) == ["job.enqueued", "job.started", "job.retried", "job.started", "job.succeeded"]


@pytest.mark.parametrize(
    ("outcome", "kind"), [(Done("1"), "job.succeeded"), (Failed("permanent", ERROR), "job.failed")]
)
def test_a_job_that_names_a_webhook_tells_its_end_on_a_silent_queue(world: World, outcome: Outcome, kind: str) -> None:
    set_level(world, "default", "off")
    owner, id = world.worker(), called_endpoint("", URL)
    job_id = world.add(tags=json.dumps(call_tags(id, [])), webhook=(id, URL))
    world.finish(owner, world.take(owner), outcome)

    assert told_of(world, job_id) == [kind]


def test_jobs_that_ask_and_jobs_that_do_not_are_told_of_side_by_side(world: World) -> None:
    set_level(world, "quiet", "off")
    owner, id = world.worker(queues=["quiet", "default"]), called_endpoint("", URL)
    asking = world.add(queue="quiet", tags=json.dumps(call_tags(id, ["job"])), webhook=(id, URL))
    others = [world.add(queue="quiet"), world.add()]
    for job in world.claim(owner, queues=["quiet", "default"]):
        world.finish(owner, job, Done("1"))

    assert told_of(world, asking) == ["job.enqueued", "job.started", "job.succeeded"]
    assert [told_of(world, other) for other in others] == [[], ["job.succeeded"]]


def test_each_stage_that_a_run_reports_is_told_once(world: World) -> None:
    set_level(world, "default", "all")
    owner = world.worker()
    job_id = world.add()
    job = world.take(owner, standing=loud("default"))
    report(world, owner, job, 1, "loading", "loading", "working")
    report(world, owner, job, 1, "never")  # it comes again: only the first counts
    report(world, owner, job, 2, "working")
    world.finish(owner, job, Retry(0, ERROR))
    report(world, owner, world.take(owner, standing=loud("default")), 3, "working")

    stages = [event for event in world.events() if event.kind == "job.stage"]
    assert [(event.job, event.attempt, event.detail) for event in stages] == [
        (job_id, 1, {"stage": "loading", "previous_stage": None}),
        (job_id, 1, {"stage": "working", "previous_stage": "loading"}),
        (job_id, 2, {"stage": "working", "previous_stage": None}),
    ]


def test_the_stages_of_a_job_that_did_not_ask_are_told_to_nobody(world: World) -> None:
    owner = world.worker()
    world.add()
    report(world, owner, world.take(owner), 1, "loading")

    assert world.events() == []


def test_a_queue_that_is_told_to_be_silent_tells_nothing(world: World) -> None:
    set_level(world, "default", "off")
    owner = world.worker()
    world.add()
    world.add()
    first, second = world.claim(owner, 2)
    world.finish(owner, first, Done("1"))
    world.finish(owner, second, Failed("permanent", ERROR))

    assert [event.kind for event in world.events()] == ["operator.queue.set"]


def test_successes_of_several_queues_share_a_row_and_each_queue_tells_as_it_is_set(world: World) -> None:
    set_level(world, "quiet", "off")
    set_level(world, "open", "all")
    owner = world.worker(queues=["quiet", "open", "plain"])
    ids = {queue: world.add(queue=queue) for queue in ("quiet", "open", "plain")}
    jobs = world.claim(owner, 3, queues=list(ids), standing=loud("open"))
    world.run(claims.turn, owner, [claims.Finish(job.id, job.epoch, Done("1")) for job in jobs], None)

    told = [(event.kind, event.job) for event in world.events() if event.job]

    assert told[:2] == [("job.enqueued", ids["open"]), ("job.started", ids["open"])]
    assert sorted(told[2:]) == sorted([("job.succeeded", ids["open"]), ("job.succeeded", ids["plain"])])
    assert len({event.cursor.partition("-")[0] for event in world.events() if event.kind == "job.succeeded"}) <= 2


def test_jobs_that_are_stored_in_bulk_are_told_of_too(each_store: World) -> None:
    set_level(each_store, "default", "all")
    specs = [spec() for _ in range(3)]
    each_store.store.write(Op(lambda tx: enqueue.enqueue_fresh(tx, specs)))
    each_store.store.write(Op(lambda tx: enqueue.enqueue_keyless(tx, [spec(id="lone")]), single=True))

    told = [event.job for event in each_store.events() if event.kind == "job.enqueued"]

    assert told == [*sorted(one.id for one in specs), "lone"]


def test_a_queue_that_no_longer_tells_all_tells_of_no_new_jobs(world: World) -> None:
    set_level(world, "default", "all")
    set_level(world, "default", None)
    world.add()

    assert {event.kind for event in world.events()} == {"operator.queue.set"}


def test_a_signal_is_told_of(world: World) -> None:
    set_level(world, "default", "all")
    job_id = world.add()
    world.run(signals.send, job_id, Signal(name="go", source="ann"))

    (event,) = [event for event in world.events() if event.kind == "signal.received"]

    assert (event.job, event.queue, event.detail) == (job_id, "default", {"name": "go", "source": "ann"})


def test_a_signal_is_told_of_by_default_and_not_by_a_silent_queue(world: World) -> None:
    set_level(world, "silent", "off")
    for queue in ("default", "silent"):
        job_id = world.add(queue=queue, tags='["vip"]')
        world.run(signals.send, job_id, Signal(name="go", source="ann"))
    (event,) = [event for event in world.events() if event.kind == "signal.received"]
    assert (event.queue, event.tags, event.detail) == ("default", ("vip",), {"name": "go", "source": "ann"})


def test_what_an_operator_does_to_a_job_is_told_with_the_job(world: World) -> None:
    job = world.add(tags='["vip"]', tenant="acme")
    world.run(actions.act, job, Order(Action.HOLD), actor="ann", reason="wait")
    (event,) = [event for event in world.events() if event.kind == "operator.job.hold"]
    assert (event.job, event.task, event.queue, event.tags, event.tenant) == (job, "work", "default", ("vip",), "acme")
    assert event.detail == {"actor": "ann", "target": job}

    # Neither an action on many jobs nor one on anything else names a job.
    world.run(audit, actor="ann", action="job.delete", target="12 jobs")
    world.run(audit, actor="ann", action="queue.pause", target=job)
    world.run(audit, actor="ann", action="flow.cancel", target="f")
    assert [(event.job, event.flow) for event in world.events()[-3:]] == [(None, None), (None, None), (None, "f")]


def test_the_end_of_a_flow_is_told_after_that_of_its_last_member(world: World) -> None:
    made = create(world, {"only": ()}, name="nightly")
    made.end("only")

    *_, member, flow = world.events()

    assert (member.kind, member.flow) == ("job.succeeded", made.id)
    assert (flow.kind, flow.flow, flow.detail) == ("flow.succeeded", made.id, {"name": "nightly"})


def test_what_an_operator_does_is_told_with_who_and_why(world: World) -> None:
    world.run(queues.change_queue, "mail", {"timeout": 5}, action="queue.set", actor="ann", reason="slow")

    (event,) = world.events()

    assert (event.kind, event.reason) == ("operator.queue.set", "slow")
    assert event.detail == {"actor": "ann", "target": "mail"}


LEGAL = [pytest.param(*pair, id="-".join(pair)) for pair in sorted(MOVES)]


@pytest.mark.parametrize(("state", "move"), LEGAL)
def test_every_move_that_changes_the_state_is_told(each_store: World, state: JobState, move: Move) -> None:
    for prepare in circumstances(move):
        placed = each_store.place(state)
        prepare(each_store, placed)
        set_level(each_store, placed.queue, "all")
        before = each_store.job(placed.id).state
        if move is Move.CLAIM:
            request = claim_request(placed.owner, 1, queues=[placed.queue], suspects=1, standing=loud(placed.queue))
            each_store.run(claims.claim, request)
        else:
            ACTS[move](each_store, placed)
        after = each_store.job(placed.id).state

        told = [event for event in each_store.events() if event.job == placed.id and event.previous is not None]

        if after is not before:
            assert told[-1].state == after


# -- readers


def page(world: World, **wanted: object) -> list[Event]:
    return Events(lambda: world.store).read(**wanted)  # type: ignore[arg-type]


def three_in_one_row(world: World) -> list[str]:
    """Successes of one transaction share a row of the log."""
    owner = world.worker()
    ids = [world.add() for _ in range(3)]
    done = [claims.Finish(job.id, job.epoch, Done("1")) for job in world.claim(owner, 3)]
    world.run(claims.turn, owner, done, None)
    return ids


def test_a_reader_goes_on_behind_any_event_even_inside_of_a_row(each_store: World) -> None:
    ids = three_in_one_row(each_store)
    first, second, third = page(each_store)

    assert [event.job for event in (first, second, third)] == ids
    assert [event.job for event in page(each_store, after=first.cursor)] == ids[1:]
    assert [event.job for event in page(each_store, after=second.cursor)] == ids[2:]
    assert page(each_store, after=third.cursor) == []


def test_a_reader_that_takes_one_at_a_time_misses_none_and_sees_none_twice(each_store: World) -> None:
    ids = three_in_one_row(each_store) + three_in_one_row(each_store)
    seen, cursor = [], "start"
    while found := page(each_store, after=cursor, limit=1):
        seen += [event.job for event in found]
        cursor = found[-1].cursor

    assert seen == ids


def test_a_filter_passes_over_what_is_not_wanted_and_the_cursor_counts_it(each_store: World) -> None:
    each_store.place(JobState.SUCCEEDED, tenant="acme")
    wanted = each_store.place(JobState.FAILED, tenant="acme", tags='["blue"]')
    each_store.place(JobState.CANCELLED, tenant="other")
    log = Events(lambda: each_store.store)

    assert [event.job for event in log.read(kinds="job.failed")] == [wanted.id]
    assert [event.job for event in log.read(tag="blue", tenant="acme", queue=wanted.queue)] == [wanted.id]
    feed = log("start", kinds=("flow", "operator"), timeout=0)
    assert list(feed) == []
    assert feed.cursor == log.cursor()


def test_a_reader_without_a_cursor_hears_only_what_comes(each_store: World) -> None:
    each_store.place(JobState.SUCCEEDED)
    feed = Events(lambda: each_store.store)(timeout=0)

    assert list(feed) == []
    later = each_store.place(JobState.FAILED)
    assert [event.job for event in page(each_store, after=feed.cursor)] == [later.id]


@pytest.mark.parametrize("text", ["", "x", "1", "1-", "-1", "1-2-3", "1-2\n", "٣-١", "9" * 30 + "-1"])
def test_a_malformed_cursor_is_refused(each_store: World, text: str) -> None:
    with pytest.raises(InvalidCursor):
        page(each_store, after=text)


@pytest.mark.parametrize("ahead", ["{next}-1", "{later}-0"])
def test_a_cursor_from_behind_the_end_of_the_log_is_refused_instead_of_waited_for(
    each_store: World, ahead: str
) -> None:
    each_store.place(JobState.SUCCEEDED)
    log = Events(lambda: each_store.store)
    seq = int(log.cursor().partition("-")[0])

    assert list(log(log.cursor(), timeout=0)) == []
    with pytest.raises(InvalidCursor, match="behind the end of the event log"):
        page(each_store, after=ahead.format(next=seq, later=seq + 1))


@pytest.mark.parametrize(
    "kinds", ["", "jb", "jb.failed", "job.faild", "job.", "flow.started", (), [], 5, ("job", None)]
)
def test_a_kind_that_no_event_has_is_refused_instead_of_waited_for(each_store: World, kinds: object) -> None:
    with pytest.raises(InvalidInput):
        Events(lambda: each_store.store)("start", kinds=kinds)  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [0, -1, 10_001])
def test_a_page_has_bounds(each_store: World, limit: int) -> None:
    with pytest.raises(InvalidInput):
        page(each_store, limit=limit)


def test_a_filter_by_what_events_do_not_have_is_refused(each_store: World) -> None:
    with pytest.raises(InvalidInput, match="kinds"):
        page(each_store, colour="blue")


# -- retention


def age(world: World, seconds: float) -> None:
    world.sql("update holdfast_event set at = at - :by", by=int(seconds * SECOND))


def test_a_cursor_whose_events_were_removed_is_told_so_and_where_to_go_on(each_store: World) -> None:
    three_in_one_row(each_store)
    middle = page(each_store)[1].cursor
    age(each_store, 100)
    kept = each_store.place(JobState.SUCCEEDED)
    each_store.events()
    each_store.run(events.prune, 50 * SECOND)

    with pytest.raises(CursorExpired) as expired:
        page(each_store, after=middle)
    assert [event.job for event in page(each_store, after=expired.value.oldest)] == [kept.id]
    assert [event.job for event in page(each_store)] == [kept.id]


def test_whoever_has_read_everything_misses_nothing_when_it_is_removed(each_store: World) -> None:
    three_in_one_row(each_store)
    last = page(each_store)[-1].cursor
    age(each_store, 100)
    each_store.run(events.prune, 50 * SECOND)
    later = each_store.place(JobState.SUCCEEDED)

    assert [event.job for event in page(each_store, after=last)] == [later.id]


# -- what is not committed is not told


def test_what_is_rolled_back_is_not_told(each_store: World) -> None:
    set_level(each_store, "default", "all")
    connection = each_store.connect()
    try:
        begin(connection)
        each_store.store.within(connection, Op(lambda tx: enqueue.enqueue(tx, [spec()])))
        connection.rollback()
    finally:
        connection.close()

    assert [event.kind for event in each_store.events()] == ["operator.queue.set"]


def test_a_transaction_that_commits_late_is_not_passed_over(on_postgres: World) -> None:
    set_level(on_postgres, "default", "all")
    early, late = on_postgres.connect(), on_postgres.connect()
    try:
        for connection, name in ((early, "first"), (late, "second")):
            begin(connection)
            on_postgres.store.within(connection, Op(lambda tx, id=name: enqueue.enqueue(tx, [spec(id=id)])))  # type: ignore[misc]
        late.commit()
        seen = page(on_postgres)
        early.commit()
        seen += page(on_postgres, after=seen[-1].cursor)
    finally:
        early.close()
        late.close()

    assert [event.job for event in seen if event.job] == ["second", "first"]
