"""Tokens: what is signed is accepted, and nothing else."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.rules.signals import Claims, check_kid, check_secret, is_signed, looks_like_token, parse, sign

SECRET = bytes(range(32))
OTHER = bytes(32)
CLAIMS = Claims("acme", "job-1", 0, "approval", 1_000_000, "wp-1", True)
TOKEN = sign(SECRET, "k1", CLAIMS)


def test_a_token_says_what_it_stands_for_and_who_signed_it() -> None:
    parsed = parse(TOKEN)
    assert (parsed.kid, parsed.claims) == ("k1", CLAIMS)
    assert is_signed(parsed, SECRET)


def test_the_same_claims_make_the_same_token() -> None:
    assert sign(SECRET, "k1", CLAIMS) == TOKEN


@pytest.mark.parametrize("secret", [OTHER, None])
def test_another_key_or_none_verifies_nothing(secret: bytes | None) -> None:
    assert not is_signed(parse(TOKEN), secret)


def test_a_key_signs_for_one_tenant_at_a_time() -> None:
    other = Claims("rival", *[getattr(CLAIMS, name) for name in CLAIMS.__struct_fields__[1:]])
    forged = ".".join([*sign(SECRET, "k1", other).split(".")[:3], TOKEN.split(".")[3]])
    assert not is_signed(parse(forged), SECRET)


@given(st.integers(0, len(TOKEN) - 1), st.characters(codec="ascii"))
def test_a_token_with_another_character_anywhere_is_refused(index: int, character: str) -> None:
    changed = TOKEN[:index] + character + TOKEN[index + 1 :]
    assert is_signed(parse(changed), SECRET) == (changed == TOKEN)


@given(st.text(max_size=1200))
def test_any_text_can_be_parsed_and_none_of_it_verifies(text: str) -> None:
    assert not is_signed(parse(text), SECRET)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda t: t + "=",
        lambda t: t + "==",
        lambda t: t + "\n",
        lambda t: " " + t,
        lambda t: t.replace("v1.", "v2.", 1),
        lambda t: t.replace("v1.", "V1.", 1),
        lambda t: t[:-1],
        lambda t: t.rpartition(".")[0],
        lambda t: t.rpartition(".")[0] + ".",
        lambda t: t + ".",
        lambda t: t + "." + t,
        lambda t: "",
        lambda t: "." * 3,
        lambda t: t.replace("k1", "k\u0661", 1),
    ],
)
def test_other_spellings_are_other_tokens(spoil: object) -> None:
    changed = spoil(TOKEN)  # type: ignore[operator]
    assert changed != TOKEN
    assert not is_signed(parse(changed), SECRET)


def test_the_bits_behind_the_last_character_are_no_second_spelling() -> None:
    """32 bytes end in a character of which two bits mean nothing; a lax decoder takes four spellings for one."""
    head, mac = TOKEN.rsplit(".", 1)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    raw = base64.urlsafe_b64decode(mac + "=")
    twins = [c for c in alphabet if base64.urlsafe_b64decode(mac[:-1] + c + "=") == raw]
    assert len(twins) == 4
    assert [c for c in twins if is_signed(parse(f"{head}.{mac[:-1]}{c}"), SECRET)] == [mac[-1]]


def test_a_token_has_no_room_for_an_algorithm() -> None:
    """The version alone says how it is signed: an empty MAC, or one of another length, is never looked at."""
    head = TOKEN.rpartition(".")[0]
    for mac in (b"", b"none", bytes(20), bytes(64)):
        text = base64.urlsafe_b64encode(mac).decode().rstrip("=")
        assert not is_signed(parse(f"{head}.{text}"), SECRET)


def test_a_token_that_would_be_too_long_is_not_made() -> None:
    with pytest.raises(InvalidInput, match="shorten"):
        sign(SECRET, "k1", Claims("t" * 128, "j" * 128, 0, '"' * 600, 1, "w", True))


@pytest.mark.parametrize("kid", ["", "a.b", "a:b", "a b", "x" * 33, "é", None, 7])
def test_a_name_of_a_key_that_could_not_stand_in_a_token_is_refused(kid: object) -> None:
    with pytest.raises(InvalidInput):
        check_kid(kid)


@pytest.mark.parametrize("secret", ["", "00" * 31, "00" * 33, "zz" * 32, None])
def test_a_secret_has_32_bytes(secret: object) -> None:
    with pytest.raises(InvalidInput, match="64 hexadecimal"):
        check_secret(secret)


def test_a_secret_is_stored_in_lower_case() -> None:
    assert check_secret("AB" * 32) == "ab" * 32


def test_a_job_id_does_not_look_like_a_token() -> None:
    assert looks_like_token(TOKEN)
    assert not looks_like_token("01k9zj2v3gq0")
