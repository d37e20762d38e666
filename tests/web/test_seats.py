"""Answers that go on for long: how many at once, and until when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from starlette.requests import HTTPConnection

import holdfast
from holdfast.errors import StorageUnavailable
from holdfast.model.access import Identity
from holdfast.web.wire.call import view_of
from holdfast.web.wire.dispatch import IDENTITY
from holdfast.web.wire.failures import Refused
from holdfast.web.wire.seats import SEATS, Seats
from holdfast.web.wire.sse import Said, stream
from tests.patience import SOON

from .sse_kit import following
from .web_kit import served

ANN = Identity("ann", frozenset({"read"}))


@pytest.fixture
def job(app: holdfast.App) -> str:
    """One that says nothing for now."""
    return app.enqueue(app.tasks["double"].job(1)).id


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is trusted for long."""
    monkeypatch.setattr("holdfast.web.guard.identify.TRUSTED_SECONDS", 0.0)


def test_one_too_many_is_told_to_come_later_whatever_the_others_follow(app: holdfast.App, job: str) -> None:
    path = f"/api/v1/jobs/{job}/stream"
    accept = {"accept": "text/event-stream"}
    with served(app, auth="off", viewers=2) as address:
        with following(address, path), following(address, "/live?page=/jobs"):
            for asked in (path, "/api/v1/events", "/live?page=/jobs"):
                full = httpx2.get(address + asked, headers=accept)
                assert (full.status_code, full.headers["retry-after"]) == (503, "30")
                assert full.json()["error"] == {
                    "code": "too_many_viewers",
                    "message": "too many pages and streams are open; try again later",
                    "retryable": True,
                }
            assert httpx2.get(f"{address}{path}").status_code == 200
        assert httpx2.head(address + path, headers=accept).status_code == 200


@pytest.mark.parametrize("path", ["/api/v1/jobs/{job}/stream", "/api/v1/events", "/live?page=/jobs"])
def test_a_revoked_token_ends_what_it_follows(app: holdfast.App, job: str, path: str, quick: None) -> None:
    made = app.tokens.create("ann", role="operator")
    with (
        served(app, auth="required", recheck=0.1) as address,
        following(address, path.format(job=job), token=made.secret) as events,
    ):
        app.tokens.revoke("ann")
        last = [event for event in events if event.event == "problem"]
    assert [event.data["error"]["code"] for event in last] == ["unauthenticated"]


def test_a_session_that_is_logged_out_ends_what_it_follows(app: holdfast.App, quick: None) -> None:
    opened = app.tokens.login(app.tokens.create("ann", role="viewer").secret)
    assert opened is not None
    with (
        served(app, auth="required", recheck=0.1, secure=False) as address,
        following(address, "/live?page=/jobs", cookie=f"holdfast_session={opened[0]}") as events,
    ):
        app.tokens.logout(opened[0])
        assert [event.event for event in events][-1] == "problem"


def test_those_with_one_way_in_are_asked_for_once_and_others_by_themselves() -> None:
    asked: list[str | None] = []

    async def identify(connection: HTTPConnection) -> Identity | None:
        asked.append(connection.headers.get("authorization"))
        return None if connection.headers.get("authorization") == "b" else ANN

    async def run() -> None:
        seats = Seats(100, identify, every=0.01)
        taken = [seats.take(scope(way), ANN) for way in ["a"] * 50 + ["b"] * 2]
        await asyncio.wait_for(taken[-1].over.wait(), SOON)
        assert [seat.over.is_set() for seat in taken] == [False] * 50 + [True] * 2
        for seat in taken:
            seats.leave(seat)

    asyncio.run(run())
    assert asked[:2] == ["a", "b"]


def test_a_store_that_is_away_ends_nothing() -> None:
    answers: list[Any] = [StorageUnavailable("away"), StorageUnavailable("away"), ANN, None]

    async def identify(connection: HTTPConnection) -> Identity | None:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    async def run() -> None:
        seats = Seats(1, identify, every=0.001)
        await asyncio.wait_for(seats.take(scope("a"), ANN).over.wait(), SOON)

    asyncio.run(run())
    assert not answers


def test_who_reads_nothing_is_let_go_and_his_seat_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.web.wire.sse._STUCK", 0.05)
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[Said]:
        try:
            while True:
                yield Said("x" * 1000)
        finally:
            closed.set()

    async def run() -> None:
        seats = Seats(1, known, every=60)
        sent = 0

        async def send(message: Any) -> None:
            nonlocal sent
            sent += 1
            if sent > 3:
                await asyncio.Event().wait()

        await asyncio.wait_for(stream(endless())(scope("a", seats), silent, send), SOON)
        assert seats.taken == 0
        assert closed.is_set()

    asyncio.run(run())


def test_what_goes_wrong_on_the_way_is_told_and_ends_it() -> None:
    async def failing() -> AsyncIterator[Said]:
        yield Said("fine")
        raise StorageUnavailable("secrets of the store")

    async def run() -> bytes:
        said: list[bytes] = []

        async def send(message: Any) -> None:
            said.append(message.get("body", b""))

        await stream(failing())(scope("a", Seats(1, known, every=60)), silent, send)
        return b"".join(said)

    told = asyncio.run(run())
    assert b"event: problem" in told
    assert b"secrets" not in told


def test_callers_of_one_tenant_share_its_view_and_with_it_their_looks(app: holdfast.App) -> None:
    assert view_of(app, "acme") is view_of(app, "acme")
    assert view_of(app, "acme") is not view_of(app, "globex")


async def known(connection: HTTPConnection) -> Identity | None:
    return ANN


async def silent() -> Any:
    await asyncio.Event().wait()


def scope(way_in: str, seats: Seats | None = None) -> dict[str, Any]:
    headers = [(b"authorization", way_in.encode())]
    return {"type": "http", "method": "GET", "path": "/", "headers": headers, IDENTITY: ANN, SEATS: seats}


async def _nobody(_: HTTPConnection) -> None:
    return None


def test_one_token_cannot_take_the_seats_of_all_others() -> None:
    async def run() -> None:
        seats = Seats(4, _nobody, every=60)
        scope = {"type": "http", "headers": []}
        greedy = Identity("greedy", frozenset({"read"}), via="token", token_id="1")
        taken = [seats.take(scope, greedy), seats.take(scope, greedy)]
        with pytest.raises(Refused):
            seats.take(scope, greedy)
        taken.append(seats.take(scope, Identity("other", frozenset({"read"}), via="token", token_id="2")))
        for seat in taken:
            seats.leave(seat)

    asyncio.run(run())
