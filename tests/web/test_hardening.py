"""What a security review found over HTTP, each as it was tried: results, keys, headers, ranges and the audit."""

from __future__ import annotations

import re
import socket
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import holdfast
from holdfast.web.connections import bounded_protocol

from .web_kit import Site, served

ROOT = Path(__file__).parents[2]


# -- results by webhook


@pytest.mark.parametrize("path", ["/jobs", "/jobs/bulk", "/jobs/run", "/flows"])
def test_a_jobs_webhook_needs_the_scope_of_results(site: Site, app: holdfast.App, path: str) -> None:
    """It receives the result, which a token without `payload` may not read."""
    new = {"task": "double", "arguments": {"n": 1}, "options": {"webhook": "https://mine.example/hook"}}
    body = {
        "/jobs": new,
        "/jobs/run": {**new, "wait": 0},
        "/jobs/bulk": {"jobs": [new]},
        "/flows": {"name": "f", "members": {"a": new}},
    }[path]
    sender = site.with_token(app.tokens.create("sender", scopes=["enqueue"]).secret)
    status, message = sender.refused("POST", path, body)
    assert (status, "payload" in message) == (403, True)
    assert app.jobs.find() == []
    reader = site.with_token(app.tokens.create("reader", scopes=["enqueue", "payload"]).secret)
    reader.post(path, body)
    assert len(app.jobs.find()) == 1


# -- JSON


@pytest.mark.parametrize("text", [
    '{"task": "double", "arguments": {"n": 1, "n": 2}}',
    '{"task": "double", "task": "broken", "arguments": {"n": 1}}',
    '{"task": "double", "arguments": {"n": 1}, "options": {"tags": ["a"], "queue": "a", "que\\u0075e": "b"}}',
    '{"task": "double", "arguments": {"n": 1}, "options": {"priority": 1.0, "priority": 2.0}}',
    '{"task": "double", "arguments": {"n": 1, "m": [{"deep": {"x": 1, "x": 1}}]}}',
])  # fmt: skip
def test_an_object_with_a_key_twice_is_refused(site: Site, app: holdfast.App, text: str) -> None:
    """A proxy or a log may have read the first, and we would take the last."""
    answer = site.call("POST", "/api/v1/jobs", content=text, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert "twice" in answer.json()["error"]["message"]
    assert app.jobs.find() == []


def test_a_large_body_is_checked_for_keys_that_come_twice_too(site: Site) -> None:
    jobs = ",".join(['{"task": "double", "arguments": {"n": 1}}'] * 3_000)
    headers = {"content-type": "application/json"}
    twice = f'{{"jobs": [{jobs}, {{"task": "double", "arguments": {{"n": 1, "n": 2}}}}]}}'
    assert site.call("POST", "/api/v1/jobs/bulk", content=twice, headers=headers).status_code == 400
    assert site.call("POST", "/api/v1/jobs/bulk", content=f'{{"jobs": [{jobs}]}}', headers=headers).status_code == 201


def test_the_same_key_in_two_objects_is_no_repetition(site: Site) -> None:
    body = {"jobs": [{"task": "double", "arguments": {"n": 1}}, {"task": "double", "arguments": {"n": 2}}]}
    assert site.post("/jobs/bulk", body)["created"] == 2


# -- headers


@pytest.mark.parametrize("size", [17_000, 60_000])
def test_headers_beyond_the_limit_are_refused_however_they_arrive(site: Site, size: int) -> None:
    answer = site.call("GET", "/api/v1/health/live", headers={"x-large": "a" * size})
    assert (answer.status_code, answer.json()["error"]["code"]) == (431, "headers_too_large")
    answer = site.call("GET", "/api/v1/health/live", headers={f"x-{n}": "a" * 1_000 for n in range(size // 1_000)})
    assert answer.status_code == 431
    assert site.call("GET", "/api/v1/health/live", headers={"x-large": "a" * 15_000}).status_code == 200


def test_headers_of_60_kb_in_one_packet_are_refused_by_the_served_site(app: holdfast.App) -> None:
    with served(app, http=bounded_protocol()) as address:
        where = urlsplit(address)
        assert where.hostname and where.port
        with socket.create_connection((where.hostname, where.port)) as line:
            line.sendall(b"GET /login HTTP/1.1\r\nHost: localhost\r\nX-Large: " + b"a" * 60_000 + b"\r\n\r\n")
            assert line.makefile("rb").readline().split()[1] in (b"431", b"400")


def test_a_long_range_of_a_static_file_is_refused_at_once(site: Site) -> None:
    """Older releases of starlette took seconds for one, with the event loop held up."""
    ranges = "bytes=" + ",".join(f"{n}-{n}" for n in range(20_000))
    assert site.call("GET", "/static/app.css", headers={"range": ranges}).status_code == 431
    assert site.call("GET", "/static/app.css", headers={"range": ranges[:8_000]}).status_code in (200, 206, 400, 416)


def test_the_lower_bounds_are_beyond_known_vulnerabilities() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["web"]
    bounds = dict(re.fullmatch(r"([a-z0-9]+)(?:\[.*\])?>=([0-9.]+)", one).groups() for one in extras)  # type: ignore[union-attr]
    least = {
        "starlette": (0, 49, 1),  # CVE-2025-62727: quadratic time by a Range header
        "h11": (0, 16),  # CVE-2025-43859: request smuggling by chunked bodies
        "jinja2": (3, 1, 6),  # CVE-2025-27516: the sandbox
    }
    for name, bound in least.items():
        assert tuple(int(part) for part in bounds[name].split(".")) >= bound


# -- the audit


def test_the_end_of_a_worker_is_audited(site: Site, app: holdfast.App) -> None:
    worker = site.with_token(app.tokens.create("gpu", scopes=["work"]).secret)
    me = worker.post("/work/register", {"name": "w", "queues": ["default"], "tasks": ["double"]})["worker"]
    worker.post("/work/deregister", {"worker": me})
    (record,) = app.audit.list(action="worker.deregister")
    assert (record.actor, record.target) == ("token:gpu", me)


def test_what_an_operator_spends_is_audited_once_for_its_key(site: Site, app: holdfast.App) -> None:
    app.budgets.set("team", {"tokens": 100})
    operator = site.as_role("operator")
    for _ in range(2):
        operator.post("/budgets/team/spend", {"amounts": {"tokens": 7}, "key": "r1"})
    (record,) = app.audit.list(action="budget.spend")
    assert (record.actor, record.target, record.after) == ("token:operator-all", "team", {"tokens": "7"})


@pytest.mark.parametrize("below", ["", "/result", "/attempts", "/steps", "/summary"])
def test_reading_a_payload_is_audited(site: Site, app: holdfast.App, below: str) -> None:
    job = app.tasks["double"].enqueue(21)
    app.drain()
    site.as_role("viewer").call("GET", f"/api/v1/jobs/{job.id}{below}")
    assert app.audit.list(action="job.read") == [], "a viewer sees no payload"
    site.as_role("operator").get(f"/jobs/{job.id}{below}")
    (record,) = app.audit.list(action="job.read")
    assert (record.actor, record.target) == ("token:operator-all", job.id)
    assert record.reason == f"GET /jobs/{job.id}{below}"


def test_a_program_that_reads_many_results_is_audited_in_sum(
    site: Site, app: holdfast.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = app.tasks["double"].enqueue(21)
    operator = site.as_role("operator")
    for _ in range(100):
        operator.get(f"/jobs/{job.id}/result")
    assert 10 <= len(app.audit.list(action="job.read", limit=200)) < 40


def test_whoever_has_the_store_at_hand_is_not_audited_for_looking(site: Site, app: holdfast.App) -> None:
    job = app.tasks["double"].enqueue(21)
    site.get(f"/jobs/{job.id}")
    assert app.audit.list(action="job.read") == []
