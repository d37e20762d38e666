"""Enqueueing over HTTP."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import holdfast

from .web_kit import Site


def problem(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["message"]


def send(site: Site, body: Any, path: str = "/jobs") -> Any:
    return site.call("POST", f"/api/v1{path}", json=body)


def test_a_job_is_enqueued_with_its_arguments_by_name_or_in_order(site: Site, app: holdfast.App) -> None:
    for arguments in ({"n": 21}, [21]):
        answer = send(site, {"task": "double", "arguments": arguments})
        assert answer.status_code == 201
        assert answer.json()["created"] is True
        assert app.jobs.get(answer.json()["id"]).payload == '{"n":21}'


def test_a_twin_is_answered_with_the_earlier_job(site: Site) -> None:
    body = {"task": "double", "arguments": {"n": 1}, "options": {"dedupe_key": "k"}}
    first, second = send(site, body), send(site, body)
    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json() == {"id": first.json()["id"], "created": False, "result_key": None}


def test_null_is_without_and_what_is_left_out_stays_as_the_task_says(site: Site, app: holdfast.App) -> None:
    app.task(name="three", max_attempts=3, timeout=9)(lambda: None)
    left = send(site, {"task": "three", "options": {"priority": 1}}).json()["id"]
    given = send(site, {"task": "three", "options": {"max_attempts": None, "timeout": None}}).json()["id"]
    assert (app.jobs.get(left).max_attempts, app.jobs.get(left).timeout) == (3, 9_000_000)
    assert (app.jobs.get(given).max_attempts, app.jobs.get(given).timeout) == (0, None)


def test_tags_by_key_are_taken_shown_and_filtered_by(site: Site) -> None:
    send(site, {"task": "double", "arguments": [1], "options": {"id": "a", "tags": {"order": "4711", "n": 2}}})
    send(site, {"task": "double", "arguments": [1], "options": {"id": "b", "tags": {"order": "4712"}}})
    assert site.get("/jobs/a")["tags"] == ["order=4711", "n=2"]
    assert [job["id"] for job in site.get("/jobs?tag=order%3D4711")["items"]] == ["a"]
    status, text = problem(send(site, {"task": "double", "arguments": [1], "options": {"tags": "abc"}}))
    assert (status, "tags" in text) == (400, True)


def test_every_option_of_a_call_is_taken(site: Site, app: holdfast.App) -> None:
    options = {
        "id": "mine", "queue": "slow", "priority": 7, "delay": 60, "deadline": 3600.5, "timeout": 5, "max_attempts": 3,
        "retry": {"kind": "fixed", "initial": 1}, "tags": ["blue"], "tenant": "acme", "dedupe_key": "k",
        "dedupe_scope": "s", "dedupe_until": 30, "on_duplicate": "raise", "concurrency_key": "c", "concurrency": 2,
        "fair_key": "f", "weight": 2, "requires": ["gpu"], "affinity": "llama", "version": ">=2",
    }  # fmt: skip
    send(site, {"task": "double", "arguments": {"n": 1}, "options": options})
    job = site.get("/jobs/mine")
    expected = {"queue": "slow", "priority": 7, "timeout": 5.0, "max_attempts": 3, "tags": ["blue"], "tenant": "acme"}
    assert {name: job[name] for name in expected} == expected
    assert (job["dedupe_key"], job["dedupe_scope"], job["dedupe_until"]) == ("k", "s", "window")
    assert job["retry"]["kind"] == "fixed"


def test_the_token_enqueues_and_nobody_can_say_otherwise(site: Site, app: holdfast.App) -> None:
    body = {"task": "double", "arguments": {"n": 1}}
    shop = site.with_token(app.tokens.create("shop", role="admin").secret)
    one = send(shop, body).json()["id"]
    many = send(shop, {"jobs": [body, body]}, "/jobs/bulk").json()["ids"]
    told = shop.call("POST", "/api/v1/jobs/run", json=body | {"wait": 0}).json()["id"]
    flow = shop.post("/flows", {"name": "f", "members": {"m": body}})["id"]
    member = app.flows.graph(flow).members[0].id
    for job_id in (one, *many, told, member):
        assert shop.get(f"/jobs/{job_id}")["created_by"] == "token:shop"
    local = send(site, body).json()["id"]
    assert site.get(f"/jobs/{local}")["created_by"] == "local"
    assert [job["id"] for job in site.get("/jobs?created_by=local")["items"]] == [local]
    status, text = problem(send(shop, body | {"options": {"created_by": "ada"}}))
    assert (status, "created_by" in text) == (400, True)


def test_a_job_may_be_for_an_instant(site: Site) -> None:
    body = {"task": "double", "arguments": {"n": 1}, "options": {"at": "2100-01-01T00:00:00+01:00"}}
    job_id = send(site, body).json()["id"]
    assert site.get(f"/jobs/{job_id}")["not_before"] == "2099-12-31T23:00:00Z"


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
@pytest.mark.parametrize("option", ["at", "deadline"])
def test_an_instant_that_utc_cannot_say_is_refused(site: Site, at: str, option: str) -> None:
    status, message = problem(send(site, {"task": "double", "arguments": [1], "options": {option: at}}))
    assert (status, option in message) == (422, True)


def test_a_delay_beyond_all_years_can_be_looked_at(site: Site, app: holdfast.App) -> None:
    app.enqueue(app.tasks["double"].options(id="late", delay=253_402_300_000).job(1))
    assert site.get("/jobs/late")["not_before"] == "9999-12-31T23:59:59Z"


@pytest.mark.parametrize("arguments", ['{"n": NaN}', '{"n": 1e999}', '{"n": "\\ud800"}', "[" * 2000 + "]" * 2000])
def test_arguments_that_json_cannot_hold_are_refused(site: Site, arguments: str) -> None:
    body = f'{{"task": "double", "arguments": {arguments}}}'
    answer = site.call("POST", "/api/v1/jobs", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)


def test_arguments_are_checked_by_the_tasks_signature(site: Site) -> None:
    for arguments in ({"n": "x"}, {}, {"n": 1, "m": 2}, [1, 2], {"m": 1}):
        status, message = problem(send(site, {"task": "double", "arguments": arguments}))
        assert status == 422
        assert "double" in message


def test_text_stands_for_what_json_has_no_word_for(site: Site, app: holdfast.App) -> None:
    @app.task
    async def remind(at: dt.datetime, price: float, *names: str, **more: int) -> None: ...

    given = {"at": "2026-11-15T09:00:00Z", "price": 3, "extra": 1}
    assert send(site, {"task": "remind", "arguments": given}).status_code == 201
    status, message = problem(send(site, {"task": "remind", "arguments": {**given, "at": "soon"}}))
    assert status == 422
    assert "at:" in message


def test_a_big_number_stays_exact(site: Site, app: holdfast.App) -> None:
    n = 2**80 + 1
    job_id = send(site, {"task": "double", "arguments": {"n": n}}).json()["id"]
    assert site.get(f"/jobs/{job_id}")["arguments"] == {"n": n}


def test_an_unknown_task_is_refused_with_what_to_do(site: Site) -> None:
    status, message = problem(send(site, {"task": "nothing"}))
    assert status == 422
    assert "nothing" in message
    assert "/api/v1/tasks" in message


def test_a_site_may_take_any_task_and_keeps_none_of_them(site: Site, app: holdfast.App) -> None:
    open_site = site.with_settings(any_task=True)
    job_id = send(open_site, {"task": "elsewhere", "arguments": {"a": [1]}}).json()["id"]
    assert (app.jobs.get(job_id).task, app.jobs.get(job_id).payload) == ("elsewhere", '{"a":[1]}')
    assert "elsewhere" not in app.tasks
    status, message = problem(send(open_site, {"task": "elsewhere", "arguments": [1]}))
    assert (status, "by name" in message) == (422, True)
    status, message = problem(send(open_site, {"task": "webhook.deliver", "arguments": {}}))
    assert (status, "reserved" in message) == (422, True)


def test_many_jobs_are_stored_in_their_order(site: Site, app: holdfast.App) -> None:
    answer = send(site, {"jobs": [{"task": "double", "arguments": {"n": n}} for n in range(1200)]}, "/jobs/bulk")
    assert answer.status_code == 201
    found = answer.json()
    assert found["created"] == 1200
    assert [app.jobs.get(found["ids"][n]).payload for n in (0, 700, 1199)] == ['{"n":0}', '{"n":700}', '{"n":1199}']


def test_of_many_jobs_all_are_stored_or_none(site: Site, app: holdfast.App) -> None:
    good, bad = {"task": "double", "arguments": {"n": 1}}, {"task": "double", "arguments": {"n": "x"}}
    assert send(site, {"jobs": [good, bad]}, "/jobs/bulk").status_code == 422
    assert app.jobs.find() == []


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "task"),
        ({"task": ""}, "task"),
        ({"task": "double", "colour": 1}, "colour"),
        ({"task": "double", "arguments": 5}, "arguments"),
        ({"task": "double", "options": {"colour": 1}}, "colour"),
        ({"task": "double", "options": {"priority": 99999}}, "priority"),
        ({"task": "double", "options": {"at": "2026-11-15T09:00:00"}}, "at"),
        ({"task": "double", "options": {"delay": -1}}, "delay"),
        ({"task": "double", "options": {"queue": "a b"}}, "queue"),
        ({"task": "double", "options": {"retry": {"kind": "often"}}}, "kind"),
        ([], "object"),
    ],
)
def test_what_does_not_fit_is_named(site: Site, body: Any, named: str) -> None:
    status, message = problem(send(site, body))
    assert status == 400
    assert named in message


def test_options_that_contradict_each_other_are_refused(site: Site) -> None:
    options = {"delay": 1, "at": "2100-01-01T00:00:00Z"}
    status, message = problem(send(site, {"task": "double", "arguments": [1], "options": options}))
    assert (status, "either" in message) == (422, True)


def test_a_body_that_is_too_large_or_of_another_type_is_refused(site: Site) -> None:
    large = b'{"task": "' + b"x" * 2**20 + b'"}'
    json = {"content-type": "application/json"}
    assert site.call("POST", "/api/v1/jobs", content=large, headers=json).status_code == 413
    assert site.call("POST", "/api/v1/jobs", content=b"task=double").status_code == 415
    assert site.call("POST", "/api/v1/jobs", content=b"{", headers=json).status_code == 400
    site.app.tasks["double"].signature.limit = 300_000
    assert send(site, {"task": "double", "arguments": ["x" * 300_000]}).status_code == 413


def test_more_than_so_many_jobs_are_refused(site: Site) -> None:
    status, message = problem(send(site, {"jobs": [{"task": "double"}] * 10_001}, "/jobs/bulk"))
    assert (status, "10000" in message) == (400, True)


def test_a_viewer_may_not_enqueue_and_the_attempt_is_on_record(site: Site, app: holdfast.App) -> None:
    viewer = site.as_role("viewer")
    for path in ("/jobs", "/jobs/bulk", "/jobs/run", "/jobs/stream"):
        assert send(viewer, {"task": "double", "arguments": [1]}, path).status_code == 403
    assert app.jobs.find() == []
    refused = [record for record in app.audit.list() if record.action == "access.refused"]
    assert len(refused) == 4


def test_what_a_tenants_token_enqueues_is_the_tenants(site: Site, app: holdfast.App) -> None:
    acme = site.as_role("operator", tenant="acme")
    job_id = send(acme, {"task": "double", "arguments": [1]}).json()["id"]
    assert app.jobs.get(job_id).tenant == "acme"
    ids = send(acme, {"jobs": [{"task": "double", "arguments": [1]}] * 2}, "/jobs/bulk").json()["ids"]
    assert {app.jobs.get(job_id).tenant for job_id in ids} == {"acme"}
    status, message = problem(send(acme, {"task": "double", "arguments": [1], "options": {"tenant": "globex"}}))
    assert (status, "acme" in message) == (422, True)


def test_tasks_are_listed_with_what_they_take(site: Site, app: holdfast.App) -> None:
    app.declare("report.build", queue="reports")
    found = {task["name"]: task for task in site.get("/tasks")["items"]}
    assert found["broken"]["queue"] == "mail"
    assert found["report.build"]["declared"] is True
    payload = found["double"]["arguments"]["$defs"]["Payload"]
    assert payload["properties"] == {"n": {"type": "integer"}}
    assert (payload["required"], payload["additionalProperties"]) == (["n"], False)
