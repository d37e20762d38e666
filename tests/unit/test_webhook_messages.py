"""Messages that others sign and we verify, and the other way round, with the library that the standard has."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from holdfast.errors import InvalidInput, InvalidSignature
from holdfast.rules.signing import new_secret
from holdfast.webhooks import Message, sign, verify

OLD, NEW, OTHER = new_secret(b"o" * 32), new_secret(b"n" * 24), new_secret(b"x" * 64)
BODY = '{"type": "invoice.paid", "n": 1, "text": "grüße"}'.encode()


def signed(secret: str, *, id: str = "msg_1", at: int | None = None, body: bytes = BODY) -> dict[str, str]:
    """The headers that the library would send."""
    at = int(time.time()) if at is None else at
    signature = Webhook(secret).sign(id, datetime.fromtimestamp(at, UTC), body.decode())
    return {"Webhook-Id": id, "Webhook-Timestamp": str(at), "Webhook-Signature": signature}


def test_what_the_library_signs_is_verified() -> None:
    headers = signed(NEW)
    message = verify(NEW, headers, BODY)

    assert message == Message("msg_1", int(headers["Webhook-Timestamp"]), BODY)
    assert (message.type, message.data["text"]) == ("invoice.paid", "grüße")


@pytest.mark.parametrize("secrets", [[OLD], [NEW], [NEW, OLD]])
def test_what_we_sign_is_verified_by_the_library_with_either_secret_of_a_rotation(secrets: list[str]) -> None:
    headers = sign(secrets, "msg_2", BODY)

    for secret in secrets:
        assert Webhook(secret).verify(BODY, headers) == verify(secret, headers, BODY).data
    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER).verify(BODY, headers)


def test_a_receiver_with_both_secrets_takes_what_is_signed_with_either_and_with_both() -> None:
    both = signed(OLD)
    both["Webhook-Signature"] += " " + signed(NEW, at=int(both["Webhook-Timestamp"]))["Webhook-Signature"]

    for headers in (signed(OLD), signed(NEW), both):
        assert verify([NEW, OLD], headers, BODY).id == "msg_1"
    assert verify(NEW, both, BODY).id == "msg_1"
    with pytest.raises(InvalidSignature):
        verify(NEW, signed(OLD), BODY)


def test_a_secret_may_come_without_its_prefix_or_padding() -> None:
    bare = new_secret(b"p" * 25).removeprefix("whsec_")
    assert bare.endswith("=")
    for secret in (bare, bare.rstrip("="), f"whsec_{bare}"):
        assert verify(secret, signed(bare), BODY).id == "msg_1"


@pytest.mark.parametrize("seconds", [-299, 299])
def test_a_clock_may_be_a_little_wrong(seconds: int) -> None:
    assert verify(NEW, signed(NEW, at=1_700_000_000), BODY, now=1_700_000_000 + seconds).at == 1_700_000_000


@pytest.mark.parametrize("seconds", [-301, 301, 86_400])
def test_a_message_from_another_time_is_refused(seconds: int) -> None:
    with pytest.raises(InvalidSignature):
        verify(NEW, signed(NEW, at=1_700_000_000), BODY, now=1_700_000_000 + seconds)


@pytest.mark.parametrize(
    "change",
    [
        {"Webhook-Id": "msg_2"}, {"Webhook-Id": ""}, {"Webhook-Timestamp": "now"}, {"Webhook-Timestamp": "1e9"},
        {"Webhook-Timestamp": ""}, {"Webhook-Signature": ""}, {"Webhook-Signature": "v1,"},
        {"Webhook-Signature": "v2,AA=="}, {"Webhook-Signature": "v1,\u0661"},
    ],
)  # fmt: skip
def test_a_changed_header_is_refused(change: dict[str, str]) -> None:
    with pytest.raises(InvalidSignature):
        verify(NEW, signed(NEW) | change, BODY)


def test_a_changed_body_and_a_missing_header_are_refused() -> None:
    headers = signed(NEW)
    with pytest.raises(InvalidSignature):
        verify(NEW, headers, BODY + b" ")
    for name in headers:
        with pytest.raises(InvalidSignature):
            verify(NEW, {key: value for key, value in headers.items() if key != name}, BODY)


@pytest.mark.parametrize(
    "body",
    [
        b'{"type": "invoice.paid", "amount": 900, "amount": 1}', b'{"type": "invoice.paid", "amount": 1} ',
        b'{"type":"invoice.paid","amount":1}', b'{"amount": 1, "type": "invoice.paid"}',
        b'{"type": "invoice.paid", "amount": 1.0}', b'{"type": "invoice.p\\u0061id", "amount": 1}',
    ],
)  # fmt: skip
def test_the_bytes_are_verified_and_not_what_they_mean(body: bytes) -> None:
    headers = signed(NEW, body=b'{"type": "invoice.paid", "amount": 1}')
    with pytest.raises(InvalidSignature):
        verify(NEW, headers, body)


def test_a_header_that_comes_twice_is_refused() -> None:
    headers = [(name.encode(), value.encode()) for name, value in signed(NEW).items()]
    assert verify(NEW, headers, BODY).id == "msg_1"
    with pytest.raises(InvalidSignature):
        verify(NEW, [*headers, (b"webhook-id", b"msg_9")], BODY)


def test_an_id_with_a_full_stop_could_be_read_two_ways_and_is_refused() -> None:
    with pytest.raises(InvalidSignature):
        verify(NEW, signed(NEW, id="msg.1"), BODY)


@pytest.mark.parametrize("secrets", ["", [], ["whsec_c2hvcnQ="], "pässword"])
def test_a_secret_that_is_none_is_an_error_of_the_program(secrets: str | list[str]) -> None:
    with pytest.raises(InvalidInput):
        verify(secrets, signed(NEW), BODY)
