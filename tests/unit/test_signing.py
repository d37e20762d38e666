"""Signatures of webhooks, and what is refused."""

from __future__ import annotations

import base64

import pytest

from holdfast.errors import InvalidInput
from holdfast.rules.signing import is_signed, is_timely, key_of, new_secret, sign

OLD, NEW = new_secret(b"o" * 32), new_secret(b"n" * 32)


def test_either_secret_verifies_while_both_sign() -> None:
    signatures = sign([NEW, OLD], "msg_1", 1_700_000_000, b'{"a":1}')

    for secret in (OLD, NEW):
        assert is_signed([secret], "msg_1", "1700000000", b'{"a":1}', signatures)


@pytest.mark.parametrize(
    ("id", "at", "body"), [("msg_2", "1700000000", b"x"), ("msg_1", "1700000001", b"x"), ("msg_1", "1700000000", b"y")]
)
def test_whatever_is_changed_is_noticed(id: str, at: str, body: bytes) -> None:
    assert not is_signed([OLD], id, at, body, sign([OLD], "msg_1", 1_700_000_000, b"x"))


@pytest.mark.parametrize("given", ["", "v1", "v1,", "v2,AAAA", "v1,%%%", "v1a,AAAA", " " * 100, "v1,\u0661"])
def test_what_is_no_signature_verifies_nothing(given: str) -> None:
    assert not is_signed([OLD], "msg_1", "1700000000", b"x", given)


@pytest.mark.parametrize("size", [0, 23, 65])
def test_a_secret_has_a_size(size: int) -> None:
    with pytest.raises(InvalidInput, match="24 to 64"):
        key_of("whsec_" + base64.b64encode(b"x" * size).decode())


@pytest.mark.parametrize("text", ["whsec_!", "whsec_YWJj*", "pässwörd"])
def test_a_secret_is_base64(text: str) -> None:
    with pytest.raises(InvalidInput):
        key_of(text)


@pytest.mark.parametrize("id", ["", "a.b", "a b", "a\n", "x" * 129, "ä"])
def test_an_id_that_could_be_read_two_ways_is_not_signed(id: str) -> None:
    with pytest.raises(InvalidInput):
        sign([OLD], id, 1, b"")


@pytest.mark.parametrize(("at", "timely"), [("1000", True), ("1300", True), ("700", True), ("1301", False),
                                            ("699", False), ("-1", False), ("1e3", False), ("", False)])  # fmt: skip
def test_a_message_is_near_in_time(at: str, timely: bool) -> None:
    assert is_timely(at, 1000.0) is timely
