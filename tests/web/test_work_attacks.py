"""Tokens against each other's workers, over real HTTP: forged handles, foreign workers, queues that are not theirs."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import msgspec
import pytest

import holdfast
from holdfast.rules import base64url
from tests.patience import SOON

from .web_kit import served

Post = Callable[..., tuple[int, Any]]


@pytest.fixture
def address(app: holdfast.App) -> Iterator[str]:
    app.migrate()
    with served(app) as address:
        yield address


@pytest.fixture
def caller(app: holdfast.App, address: str) -> Iterator[Callable[..., Post]]:
    """Makes somebody with a token of their own; what they call gives a status and a body."""
    with httpx2.Client(base_url=f"{address}/api/v1", timeout=SOON) as client:

        def make(name: str, *scopes: str, **confined: Any) -> Post:
            secret = app.tokens.create(name, scopes=scopes, **confined).secret

            def call(path: str, body: Any = None) -> tuple[int, Any]:
                how: dict[str, Any] = {"headers": {"authorization": f"Bearer {secret}"}}
                answer = client.get(path, **how) if body is None else client.post(path, json=body, **how)
                return answer.status_code, answer.json() if answer.content else None

            return call

        yield make


def registered(call: Post, **more: Any) -> str:
    status, body = call("/work/register", {"name": "w", "queues": ["default"], "tasks": ["double"], **more})
    assert status == 201, body
    return str(body["worker"])


def code(answer: tuple[int, Any]) -> tuple[int, str]:
    return answer[0], answer[1]["error"]["code"]


def refusals(app: holdfast.App) -> list[tuple[str, str]]:
    return [(one.actor, one.target) for one in app.audit.list(action="access.refused")]


def test_a_token_cannot_act_as_the_worker_of_another(app: holdfast.App, caller: Callable[..., Post]) -> None:
    owner, attacker = caller("owner", "work"), caller("attacker", "work", "read")
    app.enqueue(app.tasks["double"].job(1))
    worker = registered(owner)
    _, claimed = owner("/work/claim", {"worker": worker})
    handle = claimed["jobs"][0]["handle"]
    assert code(attacker("/work/claim", {"worker": worker})) == (403, "access_denied")
    assert code(attacker("/work/beat", {"worker": worker})) == (403, "access_denied")
    assert code(attacker("/work/deregister", {"worker": worker})) == (403, "access_denied")
    end = {"handle": handle, "end": {"outcome": "done", "result": "forged"}}
    assert code(attacker("/work/finish", end)) == (422, "bad_handle")
    assert code(attacker("/work/emit", {"handle": handle, "frames": [{"data": "x"}]})) == (422, "bad_handle")
    assert {actor for actor, _ in refusals(app)} == {"token:attacker"}
    assert len(refusals(app)) == 5
    assert owner("/work/finish", {**end, "end": {"outcome": "done", "result": 2}})[1]["state"] == "succeeded"
    assert owner("/work/deregister", {"worker": worker})[0] == 200
    acts = [(one.actor, one.action) for one in app.audit.list() if one.target == worker]
    assert acts == [("token:owner", "worker.deregister"), ("token:owner", "worker.register")]


def test_a_forged_handle_finishes_nothing_of_a_native_worker(app: holdfast.App, caller: Callable[..., Post]) -> None:
    attacker, begun, go_on = caller("attacker", "work", "read"), threading.Event(), threading.Event()

    @app.task(queue="slow")
    def wait() -> str:
        begun.set()
        go_on.wait(SOON)
        return "honest"

    with app.worker(queues=["slow"]):
        job = wait.enqueue()
        assert begun.wait(SOON)
        _, seen = attacker(f"/jobs/{job.id}")
        worker, epoch = seen["owner"], seen["epoch"]
        store = registered(attacker)
        app.enqueue(app.tasks["double"].job(1))
        _, own = attacker("/work/claim", {"worker": store})
        version, backend, name, *_ = own["jobs"][0]["handle"].split(".")
        run = base64url.encode(msgspec.json.encode([job.id, epoch, worker, 0, 1]))
        text = f"{version}.{backend}.{name}.{run}"
        guess = base64url.encode(hashlib.blake2b(text.encode(), digest_size=16).digest())
        old = f"hf1.{backend}.{name}.{run}"
        before = base64url.encode(hashlib.blake2b(old.encode(), digest_size=6).digest())
        for forged in (f"{text}.{guess}", f"{text}.{own['jobs'][0]['handle'].split('.')[4]}", f"{old}.{before}"):
            end = {"handle": forged, "end": {"outcome": "done", "result": "forged"}}
            assert code(attacker("/work/finish", end)) == (422, "bad_handle")
        assert code(attacker("/work/deregister", {"worker": worker})) == (403, "access_denied")
        assert code(attacker("/work/beat", {"worker": worker})) == (403, "access_denied")
        go_on.set()
        assert job.result(SOON) == "honest"


def test_a_token_cannot_act_as_a_worker_of_the_apps_own_process(app: holdfast.App, caller: Callable[..., Post]) -> None:
    admin = caller("admin", "admin")
    worker = app.remote.register("inside", ["default"], ["double"]).worker
    app.enqueue(app.tasks["double"].job(1))
    (held,) = app.remote.claim(worker)
    assert code(admin("/work/deregister", {"worker": worker})) == (403, "access_denied")
    assert code(admin("/work/finish", {"handle": held.handle, "end": {"outcome": "done"}})) == (422, "bad_handle")
    assert app.remote.deregister(worker) == 1


def test_a_confined_token_works_on_its_queues_and_tasks_alone(app: holdfast.App, caller: Callable[..., Post]) -> None:
    worker = caller("mailer", "work", "read", queues=["mail"], tasks=["broken"])
    for wrong in ({"queues": ["mail", "default"], "tasks": ["broken"]}, {"queues": ["mail"], "tasks": ["double"]}):
        assert code(worker("/work/register", {"name": "w", **wrong})) == (403, "access_denied")
    me = registered(worker, queues=["mail"], tasks=["broken"], concurrency=5)
    app.enqueue(app.tasks["double"].options(queue="mail").job(1))
    app.enqueue(app.tasks["broken"].options(queue="default").job("x"))
    mine = app.enqueue(app.tasks["broken"].job("x"))
    _, claimed = worker("/work/claim", {"worker": me, "limit": 5})
    assert [job["id"] for job in claimed["jobs"]] == [mine.id]
    assert {target for _, target in refusals(app)} == {"POST /work/register"}


def test_a_confined_token_enqueues_its_queues_and_tasks_alone(app: holdfast.App, caller: Callable[..., Post]) -> None:
    sender = caller("sender", "enqueue", queues=["mail"], tasks=["broken"])
    good = {"task": "broken", "arguments": ["x"]}
    assert sender("/jobs", good)[0] == 201
    bad = [
        {"task": "double", "arguments": [1], "options": {"queue": "mail"}},
        {**good, "options": {"queue": "default"}},
        {**good, "options": {"dedupe_key": "k", "dedupe_scope": "double", "on_duplicate": "replace"}},
    ]
    for body in bad:
        assert code(sender("/jobs", body)) == (403, "access_denied")
        assert code(sender("/jobs/bulk", {"jobs": [good, body]})) == (403, "access_denied")
        assert code(sender("/jobs/run", body)) == (403, "access_denied")
        assert code(sender("/flows", {"name": "f", "members": {"a": body}})) == (403, "access_denied")
    assert code(sender("/flows/staged", {"name": "f"})) == (403, "access_denied")
    assert len(app.jobs.find()) == 1


def test_a_confined_token_reads_its_own_jobs_by_their_ids_and_nothing_else(
    app: holdfast.App, caller: Callable[..., Post]
) -> None:
    reader = caller("reader", "read", "payload", "signal", queues=["mail"])
    mine, other = app.enqueue(app.tasks["broken"].job("x")), app.enqueue(app.tasks["double"].job(1))
    for path in ("", "/result", "/attempts", "/steps", "/explain", "/artifacts", "/stream", "/progress", "/signals"):
        assert reader(f"/jobs/{mine.id}{path}")[0] in (200, 202)
        assert code(reader(f"/jobs/{other.id}{path}")) == (404, "not_found")
    assert code(reader(f"/jobs/{other.id}/signals", {"name": "s"})) == (404, "not_found")
    for path in ("/jobs", "/queues", "/workers", "/errors", "/events", "/flows", "/stats"):
        assert code(reader(path))[0] in (403, 404), path


def test_a_confined_token_sees_no_page(app: holdfast.App, address: str) -> None:
    secret = app.tokens.create("reader", scopes=["read"], queues=["mail"]).secret
    with httpx2.Client(base_url=address, headers={"authorization": f"Bearer {secret}"}, timeout=SOON) as client:
        for path in ("/", "/jobs", "/queues", "/live?page=/jobs"):
            assert client.get(path).status_code == 403, path


@pytest.mark.parametrize("scopes", [["admin"], ["operate"], ["read", "operate"]])
def test_a_confined_token_cannot_be_an_operator(app: holdfast.App, scopes: list[str]) -> None:
    with pytest.raises(holdfast.InvalidInput, match="confined"):
        app.tokens.create("both", scopes=scopes, queues=["mail"])


def test_what_a_token_is_confined_to_is_shown_and_kept(app: holdfast.App) -> None:
    made = app.tokens.create("mailer", scopes=["work"], queues=["mail", "mail", "a"], tasks=("broken",))
    assert (made.queues, made.tasks) == (("a", "mail"), ("broken",))
    found = app.tokens.identify(made.secret)
    assert found is not None
    assert (found.queues, found.tasks, found.is_confined) == (("a", "mail"), ("broken",), True)
    (record,) = app.audit.list(action="token.create")
    assert record.after["queues"] == ["a", "mail"]
