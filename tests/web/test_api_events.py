"""The event log over HTTP: by the page, and as things happen."""

from __future__ import annotations

import threading

import pytest

import holdfast
from holdfast.storage.ops import events
from holdfast.storage.port import Op
from tests.patience import SOON

from .sse_kit import Heard, following
from .web_kit import Site, served


@pytest.fixture(autouse=True)
def loud(app: holdfast.App) -> None:
    """Everything that happens in both queues is told."""
    for queue in ("default", "mail"):
        app.queues.set(queue, events="all")


def test_events_come_by_the_page(site: Site, app: holdfast.App) -> None:
    jobs = [app.enqueue(app.tasks["double"].job(n)).id for n in range(3)]
    first = site.get("/events?kind=job&limit=2")
    rest = site.get(f"/events?kind=job&after={first['next']}")
    assert [event["job"] for event in (*first["items"], *rest["items"])] == jobs
    assert site.get(f"/events?after={rest['next']}") == {"items": [], "next": rest["next"]}


def test_events_are_filtered_and_a_page_says_how_far_it_came(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].job(1))
    job = app.enqueue(app.tasks["broken"].job("no"))
    app.drain()
    failed = site.get("/events?kind=job.failed&kind=flow")
    assert [event["job"] for event in failed["items"]] == [job.id]
    assert site.get("/events?task=broken&queue=mail")["items"][0]["kind"] == "job.enqueued"
    nothing = site.get("/events?kind=flow")
    assert nothing["items"] == []
    assert site.get(f"/events?after={nothing['next']}")["items"] == []


def test_kinds_and_cursors_that_do_not_exist_are_refused_by_name(site: Site) -> None:
    answer = site.call("GET", "/api/v1/events?kind=job.exploded")
    assert (answer.status_code, "job.exploded" in answer.json()["error"]["message"]) == (422, True)
    assert site.call("GET", "/api/v1/events?after=yesterday").status_code == 400
    for headers in ({}, {"accept": "text/event-stream"}):
        answer = site.call("GET", "/api/v1/events?after=999-0", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_cursor")


def test_a_cursor_behind_which_events_are_gone_is_409_and_says_what_to_do(site: Site, app: holdfast.App) -> None:
    for n in range(3):
        app.enqueue(app.tasks["double"].job(n))
    first = site.get("/events?limit=1")["next"]
    forget_events(app)
    for headers in ({}, {"accept": "text/event-stream"}):
        answer = site.call("GET", f"/api/v1/events?after={first}", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "cursor_expired")
        assert "continue from" in answer.json()["error"]["message"]


def test_a_tenant_hears_of_its_own_alone(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].job(1))
    mine = app.enqueue(app.tasks["double"].job(2), tenant="acme")
    acme = site.as_role("viewer", tenant="acme")
    assert [event["job"] for event in acme.get("/events?kind=job")["items"]] == [mine.id]
    assert acme.call("GET", "/api/v1/events?tenant=globex").status_code == 403


def test_events_are_heard_as_they_happen_and_again_from_the_last_one_seen(app: holdfast.App) -> None:
    before = app.enqueue(app.tasks["double"].job(0))
    with served(app, auth="off") as address:
        with following(address, "/api/v1/events?after=start&task=double") as feed:
            seen = next(feed)
            assert (seen.event, seen.data["job"]) == ("event", before.id)
            now = app.enqueue(app.tasks["double"].job(1))
            assert next(feed).data["job"] == now.id
        with following(address, "/api/v1/events", last_event_id=str(seen.id)) as feed:
            assert next(feed).data["job"] == now.id


def test_many_followers_cost_the_store_one_reader(app: holdfast.App) -> None:
    """Each hears everything, in order, from where it began."""
    heard: list[list[Heard]] = []
    ready = threading.Barrier(6)

    def follow(address: str) -> None:
        with following(address, "/api/v1/events?after=start&kind=job.enqueued") as feed:
            mine = [next(feed)]
            ready.wait(SOON)
            mine += [next(feed) for _ in range(20)]
        heard.append(mine)

    app.enqueue(app.tasks["double"].job(0))
    with served(app, auth="off") as address:
        threads = [threading.Thread(target=follow, args=(address,)) for _ in range(5)]
        for thread in threads:
            thread.start()
        ready.wait(SOON)
        jobs = [app.enqueue(app.tasks["double"].job(n)).id for n in range(20)]
        for thread in threads:
            thread.join(SOON)
    assert [[event.data["job"] for event in mine[1:]] for mine in heard] == [jobs] * 5


def forget_events(app: holdfast.App) -> None:
    """Remove all that the log has."""
    app.open().write(Op(lambda tx: events.prune(tx, 0)))
