"""Enqueue and wait, or enqueue and follow."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

import holdfast
from holdfast.model.jobs import JobState

from .web_kit import Site, served


def events(text: str) -> list[tuple[str, Any]]:
    """Each event of a stream: its name and its data."""
    found = []
    for block in text.strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            found.append((lines["event"], json.loads(lines["data"])))
    return found


def follow(address: str, body: Any) -> list[tuple[str, Any]]:
    answer = httpx2.post(f"{address}/api/v1/jobs/stream", json=body, timeout=30)
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
    return events(answer.text)


def test_a_call_waits_for_its_result(site: Site, app: holdfast.App) -> None:
    async def call(body: Any) -> Any:
        async with app.worker():
            return await site.acall("POST", "/api/v1/jobs/run", json=body)

    answer = site.run(call({"task": "double", "arguments": {"n": 21}, "wait": 30}))
    assert (answer.status_code, answer.json()["state"], answer.json()["result"]) == (200, "succeeded", 42)
    answer = site.run(call({"task": "broken", "arguments": ["oh"]}))
    assert (answer.status_code, answer.json()["error"]["message"]) == (200, "oh")


def test_a_call_that_takes_longer_is_answered_with_the_id(site: Site, app: holdfast.App) -> None:
    answer = site.call("POST", "/api/v1/jobs/run", json={"task": "double", "arguments": [1], "wait": 0.01})
    assert (answer.status_code, answer.json()["ended"]) == (202, False)
    assert app.jobs.get(answer.json()["id"]).state is JobState.READY


@pytest.mark.parametrize("wait", [-1, 61, "long"])
def test_a_wait_has_its_bounds(site: Site, wait: Any) -> None:
    answer = site.call("POST", "/api/v1/jobs/run", json={"task": "double", "arguments": [1], "wait": wait})
    assert (answer.status_code, "wait" in answer.json()["error"]["message"]) == (400, True)


def test_a_call_is_followed_to_its_end(app: holdfast.App) -> None:
    @app.task
    async def talk(ctx: holdfast.Context) -> str:
        await ctx.emit("one")
        await ctx.emit("two")
        return "done"

    with served(app, auth="off") as address, app.worker():
        found = follow(address, {"task": "talk"})
    assert [name for name, _ in found] == ["accepted", "frame", "frame", "result"]
    assert [data["data"] for name, data in found if name == "frame"] == ["one", "two"]
    assert found[-1][1]["result"] == "done"
    assert found[-1][1]["id"] == found[0][1]["id"]
    # The job is enqueued while the answer is sent, and still knows who asked.
    assert app.jobs.get(found[0][1]["id"]).created_by == "local"


def test_a_call_that_fails_ends_with_its_error(app: holdfast.App) -> None:
    with served(app, auth="off") as address, app.worker():
        found = follow(address, {"task": "broken", "arguments": {"text": "oh"}})
    assert [name for name, _ in found] == ["accepted", "result"]
    assert (found[-1][1]["state"], found[-1][1]["error"]["message"]) == ("failed", "oh")


def test_a_call_that_cannot_be_made_is_refused_before_it_streams(site: Site, app: holdfast.App) -> None:
    assert site.call("POST", "/api/v1/jobs/stream", json={"task": "none"}).status_code == 422
    assert app.jobs.find() == []


def test_a_caller_who_goes_away_cancels_nothing(app: holdfast.App) -> None:
    body = {"task": "double", "arguments": [4]}
    with served(app, auth="off") as address:
        with httpx2.stream("POST", f"{address}/api/v1/jobs/stream", json=body, timeout=30) as answer:
            name, accepted = events(next(answer.iter_text()))[0]
        assert name == "accepted"
        app.drain()
    assert app.jobs.get(accepted["id"]).state is JobState.SUCCEEDED
