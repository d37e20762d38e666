"""The rules of delivery, against a server with scripted answers. What it saw is part of each of them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import holdfast
from holdfast.clock import SECOND

from .outbox_kit import Post
from .receiver import Answer, Receiver
from .worker_kit import Shop

Opens = Callable[..., Post]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture
def opens(shop: Shop, receiver: Receiver) -> Opens:
    """Makes the destination with options of the test's own."""
    return lambda **options: Post(shop, receiver, **options)


@pytest.fixture
def post(opens: Opens) -> Post:
    return opens()


def refuse(*bad: Any) -> Callable[[list[Any]], Answer]:
    """A server that refuses each request with one of these in it."""
    return lambda data: Answer(422, "bad row") if set(data) & set(bad) else Answer()


# -- batches


def test_a_backlog_goes_in_batches_of_64_and_the_rest(post: Post) -> None:
    post.put(*range(150))
    assert post.deliver() == [64, 64, 22]
    assert post.counts.delivered == 150
    assert [event for batch in post.receiver.data for event in batch] == list(range(150))


def test_events_carry_an_id_and_a_hash_that_stay_the_same_over_retries(post: Post) -> None:
    post.put("a", kind="note")
    post.receiver.script = [Answer(500)]
    post.deliver()
    post.wait(100)
    first, second = (batch[0] for batch in post.receiver.seen)
    assert first == second
    assert first["id"] == post.ids["a"]
    assert len(first["hash"]) == 64


# -- limits


def test_one_429_is_one_request_and_costs_no_attempt(post: Post) -> None:
    post.put(*range(200))
    post.receiver.script = [Answer(429, headers={"Retry-After": "30"})]
    assert post.deliver() == [64]
    assert [post.entry(n).attempts for n in (0, 63, 64)] == [0, 0, 0]
    assert post.state(0) == "ready:throttle"
    # Those behind it wait as long: whoever limits one batch limits the next.
    assert post.wait(29) == []
    assert sum(post.wait(10)) == 200
    assert post.counts.delivered == 200


WAITS: list[tuple[dict[str, str], str, int]] = [
    ({"Retry-After": "7"}, "{}", 7),
    ({}, '{"error": {"retryAfterSec": 9}}', 9),
    ({}, '{"error": {"retryAfterSec": 9', 9),
    ({"Retry-After": "0"}, "{}", 1),
    ({"Retry-After": "1000000000000"}, "{}", 300),
    ({"Retry-After": "-5"}, "{}", 60),
    ({"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}, "{}", 1),
    ({"Retry-After": "soon"}, "{}", 60),
    ({}, "{}", 60),
]


def test_the_wait_after_a_429_is_the_servers_within_bounds(post: Post) -> None:
    for headers, body, seconds in WAITS:
        post.put(body)
        post.receiver.script = [Answer(429, body, headers)]
        assert post.deliver() == [1]
        waits = (post.entry(body).not_before - post.clock.now()) / SECOND
        assert seconds <= waits <= seconds * 1.25, (headers, body)
        assert post.wait(1_000) == [1]


# -- credentials


def test_a_refused_credential_parks_the_batch_at_no_cost_and_in_one_request(post: Post) -> None:
    for status, data in ((401, range(5)), (403, range(5, 10))):
        post.put(*data)
        post.receiver.script = [Answer(status)]
        assert post.deliver() == [5]
    assert post.state(3) == post.state(7) == "blocked:auth"
    assert post.entry(3).attempts == 0
    assert post.counts.parked == 10
    (reason,) = post.app.jobs.explain(post.ids["3"]).reasons
    assert "401" in reason.text
    assert "holdfast outbox retry cloud" in reason.text
    # Time does nothing for them, not even age.
    assert post.wait(30 * 86_400) == []
    assert post.counts.parked == 10


def test_a_success_lets_at_most_256_parked_entries_go_spread_over_five_seconds(post: Post) -> None:
    post.put(*range(300))
    post.receiver.rule = lambda _: Answer(401)
    # The fourth is not tried at once: three in a row are enough.
    assert post.deliver() == [64, 64, 64]
    assert post.deliver() == [64, 44]
    assert post.counts.parked == 300
    post.receiver.rule = lambda _: Answer()
    post.put("probe")
    assert post.deliver() == [1]
    assert post.counts.parked == 44
    due = sorted(post.entry(n).not_before - post.clock.now() for n in range(256))
    assert 0 < due[0] < 100_000
    assert 4.9 * SECOND < due[-1] <= 5 * SECOND
    assert len(set(due)) == 256
    assert post.wait(1) == [52]
    post.wait(6)
    post.wait(6)
    assert post.counts.delivered == 301


# -- what passes


def test_what_passes_is_tried_again_later_as_a_whole(post: Post) -> None:
    passing = [*map(Answer, (408, 425, 500, 502, 503, 302)), Answer(hang_up=True)]
    for n, answer in enumerate(passing):
        post.put(f"{n}a", f"{n}b")
        post.receiver.script = [answer]
        assert post.deliver() == [2], answer
        assert post.state(f"{n}a") == post.state(f"{n}b") == "ready:retry", answer
        assert post.entry(f"{n}a").attempts == 1
        assert post.wait(76) == [2]
    assert post.counts.delivered == 2 * len(passing)


def test_the_waits_double_from_a_minute_up_to_32_with_up_to_a_quarter_more(post: Post) -> None:
    post.put("a")
    post.receiver.rule = lambda _: Answer(500)
    waits = []
    for _ in range(7):
        post.deliver()
        waits.append((post.entry("a").not_before - post.clock.now()) / SECOND)
        post.clock.advance(waits[-1] + 100)
    for wait, base in zip(waits, [60, 120, 240, 480, 960, 1920, 1920], strict=True):
        assert base <= wait <= base * 1.25


def test_those_who_failed_together_do_not_come_back_at_one_moment(post: Post) -> None:
    post.put(*range(20))
    post.receiver.script = [Answer(500)]
    post.deliver()
    assert len({post.entry(n).not_before for n in range(20)}) == 20


def test_events_older_than_their_age_are_abandoned(opens: Opens) -> None:
    post = opens(max_age="1h")
    post.put("a", "b")
    post.receiver.rule = lambda _: Answer(500)
    for _ in range(6):
        post.deliver()
        post.clock.advance(1000)
    assert post.state("a") == "failed:aged_out"
    post.receiver.rule = lambda _: Answer()
    assert post.wait(10_000) == []


def test_limits_do_not_keep_an_event_alive_beyond_its_age(opens: Opens) -> None:
    post = opens(max_age=60)
    post.put("a")
    post.receiver.script = [Answer(429, headers={"Retry-After": "120"})]
    post.deliver()
    assert post.state("a") == "failed:aged_out"


# -- what is refused for good


def test_a_refused_batch_is_sent_row_by_row_and_only_the_bad_rows_are_abandoned(post: Post) -> None:
    post.put(*range(10))
    post.receiver.rule = refuse(3, 7)
    assert post.deliver() == [10] + [1] * 10
    assert post.state(3) == post.state(7) == "failed:permanent"
    assert post.counts.delivered == 8
    assert "bad row" in str(post.entry(3).error)


def test_the_first_row_is_abandoned_only_after_a_sibling_succeeded(post: Post) -> None:
    post.put(*range(3))
    post.receiver.rule = refuse(0, 1)
    assert post.deliver() == [3, 1, 1, 1]
    assert [post.state(n) for n in range(3)] == ["failed:permanent", "failed:permanent", "succeeded"]


def test_where_every_row_is_refused_none_is_abandoned(post: Post) -> None:
    post.put(*range(4))
    post.receiver.rule = lambda _: Answer(404)
    assert post.deliver() == [4, 1, 1, 1, 1]
    assert {post.state(n) for n in range(4)} == {"ready:retry"}
    post.receiver.rule = lambda _: Answer()
    assert post.wait(100) == [4]


def test_a_row_alone_in_its_batch_is_abandoned(post: Post) -> None:
    post.put("a")
    post.receiver.rule = lambda _: Answer(400)
    assert post.deliver() == [1]
    assert post.state("a") == "failed:permanent"


def test_a_shared_failure_while_rows_are_sent_alone_stops_that_and_holds_for_all_in_hand(post: Post) -> None:
    for status, fate in ((401, "blocked:auth"), (500, "ready:retry"), (429, "ready:throttle")):
        rows = [f"{status}-{n}" for n in range(6)]
        post.put(*rows)
        post.receiver.script = [Answer(422), Answer(422), Answer(422), Answer(status)]
        assert post.deliver() == [6, 1, 1, 1]
        assert {post.state(row) for row in rows} == {fate}


def test_what_succeeded_before_a_shared_failure_stays_delivered(post: Post) -> None:
    post.put(*range(4))
    post.receiver.script = [Answer(422), Answer(422), Answer(200), Answer(500)]
    assert post.deliver() == [4, 1, 1, 1]
    assert [post.state(n) for n in range(4)] == ["failed:permanent", "succeeded", "ready:retry", "ready:retry"]


# -- what an answer may say


def test_an_event_that_is_rejected_inside_a_good_answer_is_abandoned_and_the_others_are_delivered(shop: Shop) -> None:
    @shop.app.destination("cloud")
    async def cloud(events: list[holdfast.model.OutboxEvent]) -> holdfast.outcomes.Rejected:
        return holdfast.outcomes.Rejected({events[1].id: "no such customer"})

    jobs = shop.app.outbox("cloud").put_many(range(3))
    shop.app.drain()
    assert [job.state for job in jobs] == ["succeeded", "failed", "succeeded"]
    assert "no such customer" in str(jobs[1].status().error)


def test_an_id_that_two_tenants_have_is_refused_and_the_job_names_one_of_them(shop: Shop) -> None:
    names = ["id", "job"]

    @shop.app.destination("cloud")
    async def cloud(events: list[holdfast.model.OutboxEvent]) -> holdfast.outcomes.Rejected:
        name = names.pop(0)
        return holdfast.outcomes.Rejected({getattr(event, name): "bad" for event in events if event.tenant == "acme"})

    outbox = shop.app.outbox("cloud")
    jobs = [outbox.put(1, id="order-1", tenant=tenant) for tenant in ("acme", "globex")]
    shop.app.drain()
    for job in jobs:
        assert job is not None
        assert job.status().reason == "retry"
        assert "name event.job instead" in str(job.status().error)
    shop.clock.advance(100)
    shop.app.drain()
    assert [job.state for job in jobs if job] == ["failed", "succeeded"]


def test_an_answer_of_the_wrong_shape_delivers_nothing(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    answers: list[Any] = [True, [], "ok", {"rejected": []}, holdfast.outcomes.Rejected({"who": "?"})]

    @shop.app.destination("cloud")
    def cloud(events: list[holdfast.model.OutboxEvent]) -> Any:
        return answers[0]

    while answers:
        jobs = shop.app.outbox("cloud").put_many(range(3))
        shop.app.drain()
        assert {job.status().reason for job in jobs} == {"retry"}
        assert json.loads(str(jobs[0].status().error))["type"] == "WrongAnswer"
        assert "nothing counts as delivered" in caplog.text
        caplog.clear()
        answers.pop(0)


def test_a_destination_may_say_what_its_server_answered(shop: Shop) -> None:
    answers = [
        holdfast.outcomes.DeliveryFailed(429, {"retry-after": "5"}),
        holdfast.outcomes.DeliveryFailed(403, body="who are you"),
    ]

    @shop.app.destination("cloud")
    async def cloud(events: list[holdfast.model.OutboxEvent]) -> None:
        raise answers.pop(0)

    job = shop.app.outbox("cloud").put("a")
    assert job is not None
    shop.app.drain()
    assert job.status().reason == "throttle"
    shop.clock.advance(7)
    shop.app.drain()
    assert job.status().state == "blocked"


def test_a_delivery_that_takes_too_long_is_tried_again(shop: Shop) -> None:
    @shop.app.destination("cloud", timeout=0.05)
    async def cloud(events: list[holdfast.model.OutboxEvent]) -> None:
        await asyncio.Event().wait()

    job = shop.app.outbox("cloud").put("a")
    assert job is not None
    shop.app.drain()
    assert job.status().reason == "retry"
    assert "longer than 0.05 s" in str(job.status().error)
