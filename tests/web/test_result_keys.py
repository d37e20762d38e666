"""Result keys: a client without a token asks for the result of its own job, and of no other."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import httpx2
import pytest

import holdfast
from holdfast.rules.resultkeys import result_key
from tests.patience import SOON

from .web_kit import Site, served

SECRET = "hunter2hunter2"


@pytest.fixture
def sender(site: Site, app: holdfast.App) -> Site:
    """Somebody who may enqueue, and nothing else."""
    return site.with_token(app.tokens.create("sender", scopes=["enqueue"]).secret)


@pytest.fixture
def client(site: Site) -> Site:
    """A client without a token."""
    return site.as_nobody()


def asked(client: Site, key: str, **query: Any) -> tuple[int, Any]:
    answer = client.call("GET", f"/api/v1/results/{key}", params=query)
    return answer.status_code, answer.json()


def test_a_key_gives_the_result_without_a_token(app: holdfast.App, sender: Site, client: Site) -> None:
    made = sender.post("/jobs", {"task": "double", "arguments": [21]})
    assert asked(client, made["result_key"]) == (202, {"status": "pending", "result": None, "error": None})
    app.drain()
    assert asked(client, made["result_key"]) == (200, {"status": "succeeded", "result": 42, "error": None})
    assert client.call("GET", f"/api/v1/jobs/{made['id']}/result").status_code == 401


def test_an_error_is_shown_without_secrets_and_traceback(app: holdfast.App, sender: Site, client: Site) -> None:
    key = sender.post("/jobs", {"task": "broken", "arguments": [f"no luck with password={SECRET}"]})["result_key"]
    app.drain()
    status, body = asked(client, key)
    assert (status, body["status"], body["result"]) == (200, "failed", None)
    assert body["error"] == {"type": "ValueError", "message": "no luck with password=[redacted]"}


def test_the_keys_of_neighbours_cannot_be_guessed(app: holdfast.App, sender: Site, client: Site) -> None:
    bulk = {"jobs": [{"task": "double", "arguments": [n]} for n in range(3)], "result_keys": True}
    made = sender.post("/jobs/bulk", bulk)
    mine, *others = made["result_keys"]
    assert len({mine, *others}) == 3
    app.drain()
    mac = mine.split(".")[2]
    for other in others:
        version, job, right = other.split(".")
        for forged in (f"{version}.{job}.{mac}", f"{version}.{job}", f"{version}.{job}.{right[:-1]}", made["ids"][1]):
            assert asked(client, forged)[0] == 404
        assert asked(client, result_key(b"guess", made["ids"][1]))[0] == 404
        assert asked(client, other)[0] == 200
    assert sender.post("/jobs/bulk", {"jobs": bulk["jobs"]})["result_keys"] is None


def test_no_key_is_given_for_a_job_that_another_has_made(app: holdfast.App, sender: Site) -> None:
    app.enqueue(app.tasks["double"].options(dedupe_key="k").job(1))
    body = {"task": "double", "arguments": [7], "options": {"dedupe_key": "k"}}
    assert sender.post("/jobs", body)["result_key"] is None
    assert sender.post("/jobs/bulk", {"jobs": [body], "result_keys": True})["result_keys"] == [None]


def test_a_key_is_good_for_as_long_as_its_job_is_kept(app: holdfast.App, sender: Site, client: Site) -> None:
    made = sender.post("/jobs", {"task": "double", "arguments": [1]})
    app.drain()
    assert asked(client, made["result_key"])[0] == 200
    app.jobs.delete(made["id"])
    gone, wrong = asked(client, made["result_key"]), asked(client, "hfr1.x.y")
    assert gone == wrong == (404, gone[1])
    with pytest.raises(holdfast.NotFound):
        app.result(made["result_key"], 0)


def test_a_client_waits_for_the_end(app: holdfast.App) -> None:
    app.migrate()
    job = app.enqueue(app.tasks["double"].job(4))
    answers: list[Any] = []
    with served(app) as address:
        ask = lambda: answers.append(  # noqa: E731
            httpx2.get(f"{address}/api/v1/results/{job.result_key()}", params={"wait": 30}, timeout=SOON).json()
        )
        waiting = threading.Thread(target=ask)
        waiting.start()
        app.drain()
        waiting.join(SOON)
    assert answers == [{"status": "succeeded", "result": 8, "error": None}]


def test_the_app_takes_a_key_too(app: holdfast.App) -> None:
    job = app.enqueue(app.tasks["double"].job(4))
    key = job.result_key()
    assert key == asyncio.run(job.aresult_key())
    with pytest.raises(holdfast.ResultTimeout):
        app.result(key, 0)
    app.drain()
    assert app.result(key) == asyncio.run(app.aresult(key)) == 8
    for wrong in ("", "x", key + "x", key.replace("hfr1", "hfr2"), "hfr1.é.x", "." * 300):
        with pytest.raises(holdfast.NotFound):
            app.result(wrong)
