"""What webhooks are told, when they are told again, and what is never shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.errors import InvalidInput
from holdfast.model.events import Event
from holdfast.model.values import instant_of
from holdfast.model.webhooks import Endpoint, failure_text, said_by
from holdfast.rules.failure import error_json
from holdfast.rules.redaction import excerpt, redact
from holdfast.rules.webhooks import (
    ATTEMPTS,
    BODY_LIMIT,
    SCHEDULE,
    Told,
    call_tags,
    called_endpoint,
    check_call_kinds,
    check_kinds,
    message,
    receives,
    timestamp,
    wait_before_next,
)

BEGINNING = instant_of(0)
DONE = Event(
    cursor="1-0",
    at=BEGINNING,
    kind="job.succeeded",
    job="j",
    task="work",
    queue="q",
    state="succeeded",
    tags=("a",),
)


def endpoint(**fields: Any) -> Endpoint:
    known: dict[str, Any] = {
        "id": "end", "tenant": "", "url": "https://example.com/", "events": None, "tags": None, "called": False,
        "state": "active", "reason": None, "concurrency": 4, "succeeded_at": None, "created_at": instant_of(0),
        "updated_at": instant_of(0),
    }  # fmt: skip
    return Endpoint(**{**known, **fields})


def told(**fields: Any) -> Told:
    known: dict[str, Any] = {
        "id": "j",
        "state": "succeeded",
        "reason": None,
        "error": None,
        "result": '"fine"',
        "result_size": 6,
    }
    return Told(**{**known, **fields})


@pytest.mark.parametrize(
    ("fields", "heard"),
    [
        ({}, True),
        ({"events": ("job",)}, True),
        ({"events": ("job.succeeded",)}, True),
        ({"events": ("job.failed", "flow")}, False),
        ({"events": ("jo",)}, False),
        ({"tags": ("a", "b")}, True),
        ({"tags": ("b",)}, False),
        ({"tenant": "acme"}, False),
        ({"called": True}, False),
    ],
)
def test_an_endpoint_hears_what_it_asked_for(fields: dict[str, Any], heard: bool) -> None:
    assert receives(endpoint(**fields), DONE) is heard


def test_nothing_is_told_of_deliveries() -> None:
    event = Event(cursor="1-0", at=BEGINNING, kind="job.succeeded", job="j", task="webhook.deliver")
    assert not receives(endpoint(), event)


@pytest.mark.parametrize(
    ("kinds", "tenant", "heard"),
    [((), "", True), (("job.succeeded",), "", True), (("job.failed",), "", False), ((), "acme", False)],
)
def test_a_job_is_heard_of_by_the_endpoint_that_it_names(kinds: tuple[str, ...], tenant: str, heard: bool) -> None:
    event = Event(
        cursor="1-0", at=BEGINNING, kind="job.succeeded", tenant=tenant, job="j", tags=call_tags("end", kinds)
    )
    assert receives(endpoint(called=True), event) is heard


def test_two_tenants_never_name_the_same_endpoint() -> None:
    assert called_endpoint("a", "https://example.com/") != called_endpoint("b", "https://example.com/")


def test_our_own_tags_are_not_told() -> None:
    event = Event(cursor="1-0", at=BEGINNING, kind="job.failed", job="j", tags=("vip", *call_tags("end", ("job",))))
    assert json.loads(message("m", event, None))["data"]["tags"] == ["vip"]


def test_what_does_not_fit_is_left_out_and_says_so() -> None:
    large = json.dumps("ä" * (BODY_LIMIT // 2 - 10), ensure_ascii=False)
    for known in (told(result=large, result_size=1_000), told(result=None, result_size=1_000)):
        body = message("m", DONE, known)
        assert len(body.encode()) <= BODY_LIMIT
        data = json.loads(body)["data"]
        assert (data["result"], data["result_omitted"], data["result_bytes"]) == (None, True, 1_000)
        assert data["result_path"] == "/api/v1/jobs/j/result"

    failed = Event(cursor="1-0", at=BEGINNING, kind="job.failed", job="j", state="failed")
    said = json.loads(message("m", failed, told(state="failed", error=error_json("E", "x" * 9_000))))["data"]
    assert said["error"]["message"] == "x" * 2048


def test_even_absurd_events_stay_small() -> None:
    event = Event(cursor="1-0", at=BEGINNING, kind="operator.x", job="j", detail={"target": "x" * 300_000})
    assert len(message("m", event, None)) <= BODY_LIMIT


def test_a_job_that_went_on_is_not_told_of_as_it_is_now() -> None:
    data = json.loads(message("m", DONE, told(state="ready")))["data"]
    assert (data["state"], data["result"], data["error"]) == ("succeeded", None, None)


def test_the_traceback_is_not_told() -> None:
    failed = Event(cursor="1-0", at=BEGINNING, kind="job.failed", job="j", state="failed")
    body = message("m", failed, told(state="failed", result=None, error=error_json("E", "why", "File secret.py")))
    assert "secret.py" not in body


def test_tries_follow_the_schedule_and_a_receiver_may_ask_for_more() -> None:
    waits = [wait_before_next(attempt, None, 0.0) // SECOND for attempt in range(1, ATTEMPTS)]
    assert waits == [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]
    assert wait_before_next(1, None, 1.0) == 6 * SECOND
    assert wait_before_next(1, 120 * SECOND, 0.5) == 120 * SECOND
    assert wait_before_next(3, 1 * SECOND, 0.0) == SCHEDULE[3]


@pytest.mark.parametrize("wrong", ["job", [], ["nonsense"], ["job."], ["job.failed\n"], ["JOB"], ["job.faild"]])
def test_kinds_that_can_never_come_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        check_kinds(wrong)


def test_who_is_named_by_a_job_cannot_ask_for_what_is_not_told_of_jobs() -> None:
    assert check_call_kinds(["job.failed", "job", "job"]) == ("job.failed", "job")
    with pytest.raises(InvalidInput, match="'flow' is not an event of a job"):
        check_call_kinds(["job.failed", "flow"])


def test_an_instant_is_written_as_iso_8601() -> None:
    assert timestamp(instant_of(1_763_222_746_120_000)) == "2025-11-15T16:05:46.120Z"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('{"password": "hunter2", "x": 1}', "hunter2"),
        ('{"access_token":"abc.def"}', "abc.def"),
        ("Authorization: Bearer abcdef123456", "abcdef123456"),
        ("api_key=abc123&x=1", "abc123"),
        ("Set-Cookie: sid=42424242; Path=/", "42424242"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
        ("see postgres://me:hunter2@db/x", "hunter2"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "eyJzdWIiOiIxIn0"),
    ],
)
def test_what_looks_like_a_secret_is_left_out(text: str, secret: str) -> None:
    assert secret not in redact(text)
    assert secret not in excerpt(text.encode())


def test_a_secret_is_not_shown_by_cutting_off_its_name() -> None:
    assert "hunter" not in excerpt(b"x" * 190 + b' "password": "hunter2hunter2"')
    assert redact('{"state": "ok", "n": 3}') == '{"state": "ok", "n": 3}'


@pytest.mark.parametrize("status", [503, None])
def test_what_is_stored_of_a_failure_can_be_read_again(status: int | None) -> None:
    error = error_json("Retry", failure_text(status, 12, "busy: 5 after 3 ms"))
    assert said_by(None, error) == (status, 12, "busy: 5 after 3 ms")
    assert said_by('{"status": 204, "ms": 7}', error) == (204, 7, None)
    assert said_by(None, error_json("Fail", "the endpoint was deleted")) == (None, None, "the endpoint was deleted")
