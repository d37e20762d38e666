"""Secrets do not get into what is stored of an answer or of a command's last words."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules.answers import describe
from holdfast.rules.redaction import redact

SECRET = "hunter2hunter2"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {SECRET}",
        f"authorization=Basic {SECRET}==",
        f'{{"access_token": "{SECRET}", "n": 1}}',
        f'{{"clientSecret":"{SECRET}"}}',
        f'{{"password": "a\\"{SECRET}"}}',
        f"{{'api_key': '{SECRET}'}}",
        f"?token={SECRET}&x=1",
        f"X-Api-Key: {SECRET}",
        f"postgresql://shop:{SECRET}@db/shop",
        f"Set-Cookie: session={SECRET}; Path=/",
        f"whsec_{SECRET}",
        f"sk_live_{SECRET}",
        f"ghp_{SECRET}{SECRET}",
        f"eyJhbGciOi.{SECRET}.{SECRET}",
        f'"token": "{SECRET}',
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str) -> None:
    assert SECRET not in redact(text)
    assert "[redacted]" in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "no such thing",
        '{"error": "the item is not known", "item": 7}',
        "see https://example.com/a?b=c",
        "basic rules apply",
        "tokens were used up",
        "",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert redact(text) == text


def test_the_rest_of_a_text_stays() -> None:
    assert redact(f'{{"token": "{SECRET}", "why": "expired"}}') == '{"token": "[redacted]", "why": "expired"}'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f'x"my.api-key_2" = {SECRET}, n', 'x"my.api-key_2" = [redacted], n'),
        (f"tokentoken: {SECRET}", "tokentoken: [redacted]"),
        (f"token =\t'{SECRET}'cookie=Basic {SECRET}", "token =\t'[redacted]'cookie=[redacted]"),
        (f"token:bearer ,{SECRET}", f"token:[redacted] ,{SECRET}"),
        (f"session-eyJhbGciOi.{SECRET}.x;", "session-[redacted];"),
        (f"eyJ{'a' * 4_000}.{SECRET}.x", "[redacted]"),
    ],
)
def test_only_the_value_is_hidden_wherever_the_name_stands_in_its_word(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    "piece", ["token", "a", "A1b2", "token ", "token=", 'token"', "bearer ", "eyJ-", "eyJaaaa.", "sk-", "://a:", "\\"]
)
def test_a_text_that_is_made_to_take_long_does_not(piece: str) -> None:
    text = (piece * 16_384)[:16_384]
    began = time.thread_time()
    redact(text)
    redact(f'token="{text}')
    assert time.thread_time() - began < 0.5


def test_an_answer_is_described_without_its_secrets() -> None:
    said = json.loads(describe(401, f'{{"refresh_token": "{SECRET * 30}"}}'.encode()))["message"]
    assert said == '401: {"refresh_token": "[redacted]"}'


@given(st.text(max_size=400))
def test_any_text_can_be_redacted_and_again(text: str) -> None:
    once = redact(text)
    assert redact(once) == once or "[redacted]" in once
