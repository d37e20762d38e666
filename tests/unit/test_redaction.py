"""Secrets do not get into what is stored of an answer or of a command's last words."""

from __future__ import annotations

import ast
import json
import logging
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.rules import redaction
from holdfast.rules.answers import describe
from holdfast.rules.redaction import LOGGERS, hiding, redact, redact_logs, secret_values

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
        f"redis://:{SECRET}@cache:6379/0",
        f"postgresql://shop:p@{SECRET}@db/shop",
        f"Authorization: Token {SECRET}",
        f"Cookie: a=b; session={SECRET}",
        f"('password', '{SECRET}')",
        f"(b'authorization', b'{SECRET}')",
        f"{{'password': b'{SECRET}'}}",
        f"{{'password': 'it\\'s {SECRET}'}}",
        f"Command '['mysql', '--password', '{SECRET}']' returned 1",
        f"mysql --password {SECRET} -h db",
        f"pwd={SECRET}",
        f"AccountKey={SECRET}",
        f"https://s3/x?X-Amz-Signature={SECRET}",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----",
        f"github_pat_{SECRET}",
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
        "max_tokens=4096 is more than the 2048 tokens that are left",
        "InvalidTokenError: expired yesterday",
        'File "/srv/secrets/token.py", line 3, in token',
        "",
        "unexpected token: END at line 3",
        "unexpected token: } at line 3",
        "unexpected token: <EOF> (42)",
        "unexpected token: 42, not a name",
        "password: must be longer",
        "password: Must have 8 characters",
        "create a token: holdfast tokens create NAME",
        "invalid signature: body does not match",
        "credential: none",
        '{"error": "password: must be longer"}',
        "credential: none found for user ada",
        "    def f(token: str, user: str) -> None:",
        "    def f(api_key: Optional[str]) -> None:",
        "Passwort ungültig, password: fällt",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "text",
    [
        f"the token: {SECRET} is wrong",
        "password: hunter22",
        "password: S3cr",
        "token: qTzPvWmXkRnLsYbD",
        "token: correcthorsebatterystaplexyz",
        "password=hunter",
        "token:hunter",
        '{"password": "hunter"}',
        "password: 'hunter'",
        "Authorization: hunter",
        "Proxy-Authorization: hunter",
        "X-Auth-Token: hunter",
        "X-Api-Key: hunter",
        "token: Bearer hunter",
        "token: 123456",
        "password: token:hunter",
        "token: hunter/hunter",
    ],
)
def test_what_may_be_a_secret_after_a_name_is_hidden(text: str) -> None:
    assert "[redacted]" in redact(text)
    assert not re.search(f"{SECRET}|hunter|S3cr|qTz|correct|123456", redact(text))


def test_no_message_of_holdfast_itself_is_redacted() -> None:
    changed: list[str] = []
    for file in Path(redaction.__file__).parents[1].rglob("*.py"):
        tree = list(ast.walk(ast.parse(file.read_text())))
        described = {id(node.value) for node in tree if isinstance(node, ast.Expr)}
        for node in tree:
            text = node.value if isinstance(node, ast.Constant) and id(node) not in described else None
            # The name of an actor, in the help of two options.
            if isinstance(text, str) and " " in text and redact(text) != text and "token:shop" not in text:
                changed.append(f"{file.name}: {text} | {redact(text)}")
    assert changed == []


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
    "piece",
    [
        "token", "a", "A1b2", "token ", "token=", 'token"', "bearer ", "eyJ-", "eyJaaaa.", "sk-", "://a:", "\\",
        "-", "--token ", "token',", "cookie:", "cookie: ", "://", "a:@", "-----BEGIN PRIVATE KEY-----", "'", "b'",
        "Error", "tokenError", "AKIA", "hfr1.",
    ],
)  # fmt: skip
def test_a_text_that_is_made_to_take_long_does_not(piece: str) -> None:
    text = (piece * 16_384)[:16_384]
    began = time.thread_time()
    redact(text)
    redact(f'token="{text}')
    assert time.thread_time() - began < 0.5


def test_an_answer_is_described_without_its_secrets() -> None:
    said = json.loads(describe(401, f'{{"refresh_token": "{SECRET * 30}"}}'.encode()))["message"]
    assert said == '401: {"refresh_token": "[redacted]"}'


def test_a_key_of_amazon_is_known_by_its_form() -> None:
    assert redact("denied for AKIAIOSFODNN7EXAMPLE at s3") == "denied for [redacted] at s3"


@pytest.mark.parametrize("name", sorted(LOGGERS))
def test_what_the_package_logs_has_no_secret(name: str) -> None:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(logging.Formatter().format(record))  # type: ignore[method-assign]
    redact_logs()
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        try:
            raise ConnectionError(f"postgresql://shop:{SECRET}@db/shop")
        except ConnectionError as error:
            logger.error("no store (%s)", error, exc_info=error)
    finally:
        logger.removeHandler(handler)
    assert lines and SECRET not in lines[0] and "ConnectionError" in lines[0]


def test_every_logger_of_the_package_is_redacted() -> None:
    source = Path(redaction.__file__).parents[1].rglob("*.py")
    named = {name for file in source for name in re.findall(r'getLogger\("(holdfast[^"]*)"\)', file.read_text())}
    assert named - {"holdfast.job"} == set(LOGGERS)


def test_the_values_of_secret_arguments_are_hidden_wherever_they_stand() -> None:
    payload = json.dumps({"user": "annabel", "login": [{"password": SECRET, "pin_token": "12"}], "api_key": 7})
    assert secret_values(payload) == (SECRET,)
    with hiding(payload):
        assert redact(f"annabel cannot log in with {SECRET}!") == "annabel cannot log in with [redacted]!"
    assert SECRET in redact(f"with {SECRET}!")
    assert secret_values("no json, token") == ()
    assert secret_values('{"token": "' + "[" * 100_000) == ()


@given(st.text(max_size=400))
def test_any_text_can_be_redacted_and_again(text: str) -> None:
    once = redact(text)
    assert redact(once) == once or "[redacted]" in once
