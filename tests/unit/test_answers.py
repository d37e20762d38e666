"""What an HTTP answer means."""

from __future__ import annotations

import json

import pytest

from holdfast.clock import SECOND
from holdfast.rules.answers import LONGEST, SHORTEST, UNSAID, classify, said_wait, wait_of
from holdfast.rules.failure import FailureClass

NOW = 1_700_000_000 * SECOND


def kind_of(status: int) -> FailureClass | None:
    failure = classify(status, {}, b"", now=NOW)
    return failure and failure.kind


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_every_2xx_is_success(status: int) -> None:
    assert kind_of(status) is None


@pytest.mark.parametrize("status", [301, 302, 307, 308, 408, 425, 500, 502, 503, 504, 599])
def test_what_may_pass_is_tried_again(status: int) -> None:
    assert kind_of(status) is FailureClass.TRANSIENT


@pytest.mark.parametrize("status", [400, 404, 405, 409, 410, 413, 422, 451, 499])
def test_other_refusals_are_for_good(status: int) -> None:
    assert kind_of(status) is FailureClass.PERMANENT


def test_a_limit_and_a_lack_of_rights_are_neither() -> None:
    assert kind_of(429) is FailureClass.RATE_LIMITED
    assert [kind_of(401), kind_of(403)] == [FailureClass.AUTH_BLOCKED] * 2


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("7", 7 * SECOND),
        ("0", SHORTEST),
        ("1000000000000", LONGEST),
        ("9" * 400, LONGEST),
        ("Thu, 01 Jan 1970 00:00:00 GMT", SHORTEST),
        ("Tue, 14 Nov 2023 22:13:30 GMT", 10 * SECOND),
        ("-5", UNSAID),
        ("soon", UNSAID),
        ("", UNSAID),
        ("1.5", UNSAID),
        ("٣", UNSAID),
        ("Thu, 99 Foo 2026 99:99:99 GMT", UNSAID),
    ],
)
def test_retry_after_is_obeyed_within_bounds_and_nonsense_is_as_if_it_were_not_there(header: str, wait: int) -> None:
    assert wait_of({"Retry-After": header}, b"", now=NOW) == wait


@pytest.mark.parametrize(
    ("body", "wait"),
    [
        (b'{"retryAfterSec": 9}', 9 * SECOND),
        (b'{"error": {"details": [{"retry_after": 12}]}}', 12 * SECOND),
        (b'{"retryAfterSec": null}', None),
        (b'{"retryAfterSec": "9"}', None),
        (b'{"retryAfterSec": true}', None),
        (b'{"retryAfterSec": 1e400}', None),
        (b'{"broken": [1, "retryAfterSec": 30, ', 30 * SECOND),
        (b"\xff\xfe", None),
        (b"[" * 100_000, None),
        (b"", None),
    ],
)
def test_a_body_may_say_it_too(body: bytes, wait: int | None) -> None:
    assert said_wait({}, body, now=NOW) == wait


def test_the_error_is_one_short_line() -> None:
    failure = classify(500, {}, b"line one\n\n  line two " + b"x" * 10_000, now=NOW)
    assert failure is not None
    message = json.loads(failure.error)["message"]
    assert message.startswith("500: line one line two xxx")
    assert len(message) < 300
