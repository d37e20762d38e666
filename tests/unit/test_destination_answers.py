"""What an exception of a destination carries, whichever library raised it."""

from __future__ import annotations

import io
import urllib.error
from email.message import Message
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast import Fail, Park, Snooze, Throttle
from holdfast.outcomes import DeliveryFailed
from holdfast.rules.failure import FailureClass
from holdfast.worker.outbox.delivery import answer_of, failure_of


class Carrier(Exception):
    """An exception with whatever attributes a library gives it."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Unread:
    """A streamed response whose body nobody has read."""

    status_code = 503
    headers = {"Retry-After": "3"}

    @property
    def content(self) -> bytes:
        raise RuntimeError("attempted to access streaming response content, without having called `read()`")


def _of_urllib() -> urllib.error.HTTPError:
    headers = Message()
    headers["Retry-After"] = "9"
    return urllib.error.HTTPError("http://x", 429, "slow down", headers, io.BytesIO(b"wait"))


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (DeliveryFailed(401, body="who?"), (401, {}, b"who?")),
        (
            Carrier(response=SimpleNamespace(status_code=422, headers={"A": "b"}, content=b"bad")),
            (422, {"A": "b"}, b"bad"),
        ),
        (Carrier(status=502, headers={"A": "b"}), (502, {"A": "b"}, b"")),
        (Carrier(response=Unread()), (503, {"Retry-After": "3"}, b"")),
        (Carrier(response=None), None),
        (Carrier(status="broken"), None),
        (Carrier(code=7), None),
        (ConnectionError("down"), None),
    ],
)
def test_an_answer_is_found_in_what_carries_one(error: BaseException, answer: Any) -> None:
    assert answer_of(error) == answer


def test_an_error_of_urllib_is_an_answer() -> None:
    with _of_urllib() as error:
        assert answer_of(error) == (429, {"Retry-After": "9"}, b"wait")


@pytest.mark.parametrize(
    ("error", "kind", "after"),
    [
        (DeliveryFailed(429, {"retry-after": "2"}), "rate_limited", 2_000_000),
        (DeliveryFailed(403), "auth_blocked", None),
        (DeliveryFailed(404), "permanent", None),
        (DeliveryFailed(408), "transient", None),
        (DeliveryFailed(200), "transient", None),
        (Throttle(after=5), "rate_limited", 5_000_000),
        (Snooze(4), "rate_limited", 4_000_000),
        (Park("renew it"), "auth_blocked", None),
        (Fail("never"), "permanent", None),
        (ConnectionError("down"), "transient", None),
    ],
)
def test_what_it_means_is_decided_once(error: BaseException, kind: str, after: int | None) -> None:
    failure = failure_of(error, answer_of(error), now=0)
    assert (failure.kind, failure.after) == (FailureClass(kind), after)
