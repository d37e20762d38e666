"""Values over 256 KiB over HTTP: the API gives them whole, the pages say how large they are."""

from __future__ import annotations

import asyncio
import json

import pytest

import holdfast
from holdfast.worker.maintenance.webhook_fanout import pass_on

from .page_kit import opened, words
from .web_kit import Site

BIG = "x" * 5_000_000


@pytest.fixture
def job(app: holdfast.App) -> str:
    """A job with large arguments, a large step and a large result, which has ended."""

    @app.task
    def echo(ctx: holdfast.SyncContext, text: str) -> str:
        return str(ctx.step("same", lambda: text))

    return app.enqueue(app.tasks["echo"].job(BIG)).id


def test_the_api_gives_values_whole(site: Site, app: holdfast.App, job: str) -> None:
    app.drain()
    found = site.get(f"/jobs/{job}")
    assert (found["arguments"], found["result"]) == ({"text": BIG}, BIG)
    assert site.get(f"/jobs/{job}/result")["result"] == BIG
    assert site.get(f"/jobs/{job}/steps")["items"][0]["value"] == BIG
    content = site.call("GET", f"/api/v1/jobs/{job}/artifacts/completion/content")
    assert content.json() == BIG


def test_a_worker_elsewhere_gets_its_arguments_and_steps(site: Site, app: holdfast.App, job: str) -> None:
    worker = site.with_token(app.tokens.create("elsewhere", scopes=["work"]).secret)
    me = worker.post("/work/register", {"name": "elsewhere", "queues": ["default"], "tasks": ["echo"]})["worker"]
    (claimed,) = worker.post("/work/claim", {"worker": me})["jobs"]
    assert claimed["arguments"] == {"text": BIG}
    run, half = {"handle": claimed["handle"]}, BIG[:500_000]
    assert worker.post("/work/steps/record", run | {"name": "load", "value": half})["value"] == half
    assert worker.post("/work/steps", run)["items"][0]["value"] == half
    worker.post("/work/finish", run | {"end": {"outcome": "done", "result": half}})
    assert site.get(f"/jobs/{job}/result")["result"] == half


def test_pages_say_how_large_a_value_is_and_where_it_can_be_had(site: Site, app: holdfast.App, job: str) -> None:
    app.drain()
    for path in (f"/jobs/{job}", f"/jobs/{job}?tab=steps", f"/jobs/{job}?tab=again", "/jobs"):
        page = opened(site, path)
        assert len(page) < 200_000
        assert "(5.0 MB, too large to show here)" in words(page)
        assert "holdfast_value" not in page
    assert f"/api/v1/jobs/{job}/artifacts/completion/content" in opened(site, f"/jobs/{job}")


def test_a_webhook_says_where_a_large_result_is(site: Site, app: holdfast.App, job: str) -> None:
    app.webhooks.add("https://hooks.example.com/in", events=["job.succeeded"])
    app.drain(webhooks=False)
    asyncio.run(pass_on(app.open()))
    (delivery,) = [one for one in app.jobs.find() if one.task != "echo"]
    told = json.loads(json.loads(delivery.payload)["body"])["data"]
    assert (told["result"], told["result_omitted"], told["result_bytes"]) == (None, True, len(BIG) + 2)
    assert site.call("GET", told["result_path"]).json()["result"] == BIG
    assert site.call("GET", told["artifacts"][0]["path"]).json() == BIG
