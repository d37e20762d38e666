"""Remove secrets from texts that are stored, logged, shown or sent."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from ..values.printable import printable, printable_lines

HIDDEN: Final = "[redacted]"
LOGGERS: Final = tuple(
    f"holdfast{part}"
    for part in (
        "", ".access", ".wakeups", ".budgets", ".cli", ".jobs", ".metrics", ".storage", ".streams", ".web",
        ".webhooks", ".worker",
    )
)  # fmt: skip
"""The loggers of this package, without `holdfast.job`, which carries what handlers log themselves."""

# The texts are untrusted, so matching must be linear: repetitions are bounded or possessive.
_SAYS_SO: Final = (
    r"passw(?:or)?d|passphrase|pwd|secret|token|authorization|(?:api|access|private|account|shared)[_-]?key"
    r"|cookie|credential|signature"
)
_NAME: Final = rf"(?:{_SAYS_SO})(?![\w.]{{0,64}}(?:error|exception|warning)\b)[\w.-]{{0,64}}+"
_QUOTED: Final = r"""[bru]{0,2}(?:"(?:[^"\\]|\\.)*+"?|'(?:[^'\\]|\\.)*+'?)"""
_SCHEME: Final = r"(?:(?:bearer|basic|token|digest|negotiate|apikey|aws4-hmac-sha256)\s++)?"
# A secret's name and its value: in JSON, a header, a query, a form, a pair of Python, or a command's arguments.
_NAMED: Final = re.compile(
    rf"""(\bcookie["']?\s*+:\s*+(?!["'\s]|[bru]{{1,2}}["']))([^\r\n"']++)"""
    rf"""|({_NAME}(?:["']?\s*+[:=]\s*+|["']\s*+,\s*+(?=[bru]{{0,2}}["'])))({_QUOTED}|{_SCHEME}[^\s,;&"'}}]++)"""
    rf"""|((?<![\w-])--?(?=[\w-]{{0,64}}?(?:{_SAYS_SO}))[\w.-]{{0,128}}+\s++)({_QUOTED}|[^\s"'-][^\s"']*+)""",
    re.IGNORECASE,
)
# Secrets by their own form, whatever precedes them. The head of a JWT is bounded after a dash: a word may consist of
# such beginnings alone.
_ALONE: Final = re.compile(
    r"(?:\b(?:whsec|sk|pk|rk|ghp|gho|ghs|ghr|github_pat|glpat|xox[abprs])[_-][A-Za-z0-9+/=_-]{8,}"
    r"|\bhfs?_[A-Za-z0-9_-]{30,}"
    r"|\bhfr1\.[A-Za-z0-9._-]{30,}"
    r"|\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b"
    r"|\bAIza[0-9A-Za-z_-]{35}"
    r"|\b(?:bearer|basic)\s++[A-Za-z0-9._~+/=-]{8,}"
    r"|(?:(?<![\w-])eyJ[A-Za-z0-9_-]{4,}+|\beyJ[A-Za-z0-9_-]{4,512}+)\.[A-Za-z0-9_-]++\.[A-Za-z0-9_-]*"
    r"|-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----[A-Za-z0-9+/=\s\\]*+(?:-----END [A-Z ]{0,32}KEY-----)?"
    r"|(?<=://)[^/\s:@]*+:[^/\s]+(?=@))",
    re.IGNORECASE,
)
_NAMES: Final = (
    "passw", "passphrase", "pwd", "secret", "token", "authorization", "key", "cookie", "credential", "signature"
)  # fmt: skip
_SIGNS: Final = (
    "whsec", "sk_", "sk-", "pk_", "pk-", "rk_", "rk-", "ghp", "gho", "ghs", "ghr", "github_pat", "glpat", "xox", "hf_",
    "hfs_", "hfr1.", "akia", "asia", "abia", "acca", "aiza", "bearer", "basic", "eyj", "-----begin", "://",
)  # fmt: skip
"""Parts in lower case; every text that matches a pattern contains one of them."""
_SECRET_NAME: Final = re.compile(_SAYS_SO, re.IGNORECASE)
_SHORTEST_VALUE: Final = 6
_MOST_VALUES: Final = 32
_LARGEST_PAYLOAD: Final = 256 * 1024
_SHORTEST_SECRET: Final = 4
_LONGEST_WORD: Final = 24
_IN_DATA: Final = re.compile(r"[-\"'=]|authorization", re.IGNORECASE)
_BETWEEN_WORDS: Final = re.compile(r"[-\[|]")
_AROUND_WORDS: Final = "()[]<>.:!?…`"
_COUNT: Final = re.compile(r"\d[\d_]{0,15}\)?")
_PLACEHOLDER: Final = "Bearer TOKEN"
_OPENING: Final = re.compile(r"""[bru]{0,2}(["'])""", re.IGNORECASE)


def redact(text: str) -> str:
    """Return a text without the values of passwords, tokens, keys and cookies."""
    for value in _values.get():
        text = text.replace(value, HIDDEN)
    # Most texts have none of these words, and the search for them takes a hundredth of the time.
    small = text.lower()
    if any(word in small for word in _NAMES):
        text = _NAMED.sub(_without_value, text)
    return _ALONE.sub(HIDDEN, text) if any(sign in small for sign in _SIGNS) else text


@contextmanager
def hiding(payload: str) -> Iterator[None]:
    """Also redact, anywhere in a text, the values of arguments whose names say that they are secrets."""
    mark = _values.set(secret_values(payload))
    try:
        yield
    finally:
        _values.reset(mark)


def secret_values(payload: str) -> tuple[str, ...]:
    """Return the texts in a payload, at any depth, whose names say that they are secrets; the longest first."""
    # A large payload is not parsed just to redact an error.
    if len(payload) > _LARGEST_PAYLOAD or not _SECRET_NAME.search(payload):
        return ()
    found: set[str] = set()
    try:
        left: list[Any] = [json.loads(payload)]
    except (ValueError, RecursionError):
        return ()
    while left and len(found) < _MOST_VALUES:
        here = left.pop()
        if isinstance(here, dict):
            found.update(value for name, value in here.items() if _is_secret(name, value))
            left.extend(here.values())
        elif isinstance(here, list):
            left.extend(here)
    return tuple(sorted(found, key=len, reverse=True)[:_MOST_VALUES])


def excerpt(body: bytes, most: int = 200) -> str:
    """Return the beginning of an answer on one line, redacted before it is cut: a cut could hide a secret's name."""
    text = " ".join(body[: 16 * most].decode("utf-8", "replace").replace("\x00", "").split())
    return redact(text)[:most]


class RedactedLogs(logging.Filter):
    """Redacts the arguments and the traceback of a record, and escapes control characters in them.

    Its template stays, for tools that group by it.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        # A line per job must be cheap; the error in it is the stored one, which is redacted.
        if isinstance(record.args, tuple) and not (record.name == "holdfast.jobs" and record.levelno <= logging.INFO):
            record.args = tuple(_safe(value) for value in record.args)
        if record.exc_info and not record.exc_text:
            # Formatters use this text instead of making one.
            record.exc_text = _traceback(record.exc_info)
        return True


def redact_logs() -> None:
    """Redact secrets in all that this package logs. A repeated call changes nothing."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_FILTER)


_values: Final[ContextVar[tuple[str, ...]]] = ContextVar("holdfast_secret_values", default=())
_FORMATTER: Final = logging.Formatter()
_FILTER: Final = RedactedLogs()


def _is_secret(name: str, value: object) -> bool:
    # A short text may occur anywhere by chance.
    return isinstance(value, str) and len(value) >= _SHORTEST_VALUE and _SECRET_NAME.search(name) is not None


def _traceback(raised: Any) -> str:
    text = _FORMATTER.formatException(raised)
    error: BaseException | None = raised[1]
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if "\n" in (message := str(error)):
            # What a caller can put into an error must not look like another line of the log.
            text = text.replace(message, message.replace("\n", "\n  "))
        error = error.__cause__ or error.__context__
    return printable_lines(redact(text))


def _safe(value: object) -> object:
    if isinstance(value, BaseException):
        return printable(redact(str(value)))
    return printable_lines(redact(value)) if isinstance(value, str) else value


def _without_value(found: re.Match[str]) -> str:
    name, value = next((found[i], found[i + 1]) for i in (1, 3, 5) if found[i] is not None)
    if value == _PLACEHOLDER:
        return found[0]
    if name.rstrip(" \t:=\"'").lower().endswith("tokens") and _COUNT.fullmatch(value):
        return found[0]  # the number of tokens that a model used
    is_header = found.string[max(0, found.start() - 1)] == "-"
    if found[3] is not None and not is_header and _is_prose(name) and _is_word(value):
        return found[0]
    return name + _hidden(value)


def _is_prose(name: str) -> bool:
    """Return whether a name with its separator may belong to a sentence: "unexpected token: END"."""
    # A header has a dash, a pair in JSON has quotes, a form or a query has "=" or no space.
    return name[-1].isspace() and name.rstrip()[-1] == ":" and not _IN_DATA.search(name)


def _is_word(value: str) -> bool:
    """Return whether a value is a word, a sign or a small number, and hardly a secret."""
    if not _SHORTEST_SECRET <= len(value) <= _LONGEST_WORD:
        return len(value) < _SHORTEST_SECRET
    words = _BETWEEN_WORDS.split(value.strip(_AROUND_WORDS))
    return all(word.isalpha() and word in (word.lower(), word.upper(), word.capitalize()) for word in words if word)


def _hidden(value: str) -> str:
    """Hide a value, in the quotes that it has, so that a document stays valid."""
    found = _OPENING.match(value)
    quote = found[1] if found else ""
    return f"{quote}{HIDDEN}{quote}"
