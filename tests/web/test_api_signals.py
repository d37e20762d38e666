"""Signals over HTTP: by name, by token, and what waits for one."""

from __future__ import annotations

import pytest

import holdfast
from holdfast.web.wire.failures import refusal_of

from .web_kit import Site


@pytest.fixture
def tokens(app: holdfast.App) -> list[str]:
    """The tokens of the waitpoints that jobs of task `ask` open, in order."""
    found: list[str] = []

    @app.task
    async def ask(ctx: holdfast.Context) -> bool:
        place = await ctx.waitpoint("approval", expires=3600, type=bool)
        found.append(place.token)
        return bool(await ctx.wait_for(place, timeout=3600))

    @app.task
    async def listen(ctx: holdfast.Context) -> object:
        return await ctx.wait_for("go", timeout=3600)

    return found


def suspended(app: holdfast.App, task: str = "ask", tenant: str | None = None) -> str:
    job = app.enqueue(app.tasks[task].job(), tenant=tenant)
    app.drain()
    return job.id


def test_a_signal_by_name_lets_a_job_go_on(site: Site, app: holdfast.App, tokens: list[str]) -> None:
    job = suspended(app, "listen")
    body = {"name": "go", "payload": {"n": 2**60}, "key": "k1"}
    sent = site.post(f"/jobs/{job}/signals", body)
    assert (sent["effect"], sent["again"]) == ("resumed", False)
    app.drain()
    assert site.get(f"/jobs/{job}")["result"] == {"n": 2**60}


def test_the_same_key_is_the_same_signal(site: Site, app: holdfast.App, tokens: list[str]) -> None:
    job = suspended(app, "listen")
    body = {"name": "other", "payload": 1, "key": "k1"}
    assert site.post(f"/jobs/{job}/signals", body)["again"] is False
    assert site.post(f"/jobs/{job}/signals", body)["again"] is True
    answer = site.call("POST", f"/api/v1/jobs/{job}/signals", json=body | {"payload": 2})
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "signal_conflict")


def test_a_signal_comes_from_its_caller_and_only_an_administrator_speaks_for_others(
    site: Site, app: holdfast.App, tokens: list[str]
) -> None:
    job, operator = suspended(app, "listen"), site.as_role("operator")
    operator.post(f"/jobs/{job}/signals", {"name": "note"})
    forged = operator.call("POST", f"/api/v1/jobs/{job}/signals", json={"name": "note", "source": "alice"})
    assert forged.status_code == 403
    site.post(f"/jobs/{job}/signals", {"name": "note", "source": "alice"})
    sources = [letter["source"] for letter in site.get(f"/jobs/{job}/signals")["items"]]
    assert sources == ["alice", "token:operator-all"]


def test_a_waitpoints_token_needs_nothing_else(site: Site, app: holdfast.App, tokens: list[str]) -> None:
    job = suspended(app)
    sent = site.as_nobody().post("/signals", {"token": tokens[0], "payload": True})
    assert (sent["job_id"], sent["effect"]) == (job, "resumed")
    app.drain()
    assert site.get(f"/jobs/{job}")["result"] is True


def test_nobody_sends_much_by_a_token(site: Site, app: holdfast.App, tokens: list[str]) -> None:
    job = suspended(app)
    large = {"token": tokens[0], "payload": "x" * 256 * 1024}
    status, message = site.as_nobody().refused("POST", "/signals", large)
    assert (status, "262,144" in message) == (413, True)
    status, _ = site.refused("POST", f"/jobs/{job}/cancel", {"reason": "x" * 256 * 1024})
    assert status == 413
    own = {"name": "other", "payload": "x" * 256 * 1024}
    assert site.post(f"/jobs/{job}/signals", own)["job_id"] == job
    site.as_nobody().post("/signals", {"token": tokens[0], "payload": True})


def test_a_full_mailbox_and_a_changed_graph_are_worth_a_repeat() -> None:
    full = refusal_of(holdfast.errors.TooManySignals("j", 1))
    assert (full.status, full.problem.retryable, full.headers) == (429, True, {"retry-after": "1"})
    assert refusal_of(holdfast.errors.StaleRevision("read it again")).problem.retryable


def test_tokens_that_are_no_good_are_all_answered_alike(site: Site, app: holdfast.App, tokens: list[str]) -> None:
    suspended(app, tenant="acme")
    suspended(app)
    globex = site.as_role("operator", tenant="globex")
    site.post("/signals", {"token": tokens[1], "payload": True})
    answers = [
        globex.call("POST", "/api/v1/signals", json={"token": tokens[0], "payload": True}),  # another tenant's
        site.call("POST", "/api/v1/signals", json={"token": tokens[1], "payload": False}),  # used up
        site.call("POST", "/api/v1/signals", json={"token": tokens[0][:-2] + "xx", "payload": True}),
        site.call("POST", "/api/v1/signals", json={"token": "nonsense"}),
    ]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.text for answer in answers}) == 1


def test_a_payload_of_the_wrong_type_is_refused_and_the_token_stays_good(
    site: Site, app: holdfast.App, tokens: list[str]
) -> None:
    suspended(app)
    wrong = site.call("POST", "/api/v1/signals", json={"token": tokens[0], "payload": "yes"})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "payload_mismatch")
    assert site.post("/signals", {"token": tokens[0], "payload": False})["effect"] == "resumed"


def test_neither_a_get_nor_a_token_in_the_address_signals(site: Site, app: holdfast.App, tokens: list[str]) -> None:
    job = suspended(app)
    assert site.call("GET", f"/api/v1/signals?token={tokens[0]}").status_code == 405
    assert site.call("POST", f"/api/v1/signals?token={tokens[0]}", json={"token": "x"}).status_code == 400
    in_path = site.call("POST", f"/api/v1/jobs/{tokens[0]}/signals", json={"name": "approval", "payload": True})
    assert in_path.status_code in (404, 400, 422)
    assert site.get(f"/jobs/{job}")["state"] == "suspended"


def test_open_waitpoints_are_listed_without_their_tokens(site: Site, app: holdfast.App, tokens: list[str]) -> None:
    jobs = [suspended(app) for _ in range(3)]
    theirs = suspended(app, tenant="acme")
    first = site.get("/waitpoints?limit=3")
    rest = site.get(f"/waitpoints?limit=3&after={first['next']}")
    assert [one["job_id"] for one in (*first["items"], *rest["items"])] == [*jobs, theirs]
    assert first["items"][0]["schema"] == {"type": "boolean"}
    assert not any(token in str(first) for token in tokens)
    assert [one["job_id"] for one in site.get("/waitpoints?tenant=acme")["items"]] == [theirs]
    acme = site.as_role("viewer", tenant="acme")
    assert [one["job_id"] for one in acme.get("/waitpoints")["items"]] == [theirs]
    assert acme.get(f"/waitpoints?job={jobs[0]}")["items"] == []


def test_a_name_that_a_job_waits_for_is_listed_and_answered(site: Site, app: holdfast.App, tokens: list[str]) -> None:
    job = suspended(app, "listen")
    (one,) = site.get("/waitpoints")["items"]
    assert (one["job_id"], one["id"], one["kid"]) == (job, f"{job},{one['name']}", "")
    assert site.post(f"/jobs/{job}/signals", {"name": one["name"], "payload": "go"})["effect"] == "resumed"
    assert site.get("/waitpoints")["items"] == []


def test_what_a_job_received_is_listed_newest_first_by_page(site: Site, app: holdfast.App, tokens: list[str]) -> None:
    job = suspended(app, "listen")
    for n in range(3):
        site.post(f"/jobs/{job}/signals", {"name": f"note-{n}"})
    first = site.get(f"/jobs/{job}/signals?limit=2")
    rest = site.get(f"/jobs/{job}/signals?limit=2&after={first['next']}")
    assert [one["name"] for one in (*first["items"], *rest["items"])] == ["note-2", "note-1", "note-0"]
    assert site.call("GET", "/api/v1/jobs/nothing/signals").status_code == 404


def test_an_operator_lets_a_job_go_on_and_it_is_audited(site: Site, app: holdfast.App, tokens: list[str]) -> None:
    job = suspended(app, "listen")
    assert site.as_role("viewer").call("POST", f"/api/v1/jobs/{job}/resume", json={}).status_code == 403
    site.as_role("operator").post(f"/jobs/{job}/resume", {"payload": "enough", "reason": "nobody answers"})
    entry = next(entry for entry in app.audit.list() if entry.target.endswith(job))
    assert (entry.actor, entry.reason) == ("token:operator-all", "nobody answers")
    app.drain()
    assert site.get(f"/jobs/{job}")["result"] == "enough"
    again = site.call("POST", f"/api/v1/jobs/{job}/resume", json={})
    assert again.status_code == 409


def test_a_text_in_the_place_of_a_token_does_not_say_whether_a_job_has_that_id(
    site: Site, app: holdfast.App, tokens: list[str]
) -> None:
    job = suspended(app)
    told = [site.as_nobody().refused("POST", "/signals", {"token": text}) for text in (job, "nothing", "v1.x.y")]
    assert told == [(404, "invalid or expired token; ask for a new one")] * 3
