"""What looks like a secret is left out of what is kept or shown."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "[redacted]"

# The texts are strangers', so each word is looked at once: a match begins where a word does, and gives nothing back.
_SAYS_SO: Final = r"passw(?:or)?d|secret|token|authorization|api[_-]?key|cookie|credential"
_NAME: Final = rf"(?<![\w.-])(?=[\w.-]*(?:{_SAYS_SO}))[\w.-]++"
# A name that says so, and what follows: in JSON, in a header, in a query or a form.
_NAMED: Final = re.compile(
    rf"""({_NAME}["']?\s*+[:=]\s*+)("(?:[^"\\]|\\.)*+"?|'[^']*+'?|(?:(?:bearer|basic)\s++)?[^\s,;&"'}}]++)""",
    re.IGNORECASE,
)
# What is a secret by its own looks, whatever stands before it. The head of a JWT is bounded behind a dash: a word may
# be made of such beginnings alone.
_ALONE: Final = re.compile(
    r"(?:\b(?:whsec|sk|pk|rk|ghp|gho|ghs|ghr|glpat|xox[abp])[_-][A-Za-z0-9+/=_-]{8,}"
    r"|\bhfs?_[A-Za-z0-9_-]{30,}"
    r"|\b(?:bearer|basic)\s++[A-Za-z0-9._~+/=-]{8,}"
    r"|(?:(?<![\w-])eyJ[A-Za-z0-9_-]{4,}+|\beyJ[A-Za-z0-9_-]{4,512}+)\.[A-Za-z0-9_-]++\.[A-Za-z0-9_-]*"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@))",
    re.IGNORECASE,
)


def redact(text: str) -> str:
    """The same, without the values of passwords, tokens, keys and cookies."""
    return _ALONE.sub(HIDDEN, _NAMED.sub(lambda found: found[1] + _hidden(found[2]), text))


def excerpt(body: bytes, most: int = 200) -> str:
    """The beginning of an answer, on one line, redacted before it is cut: a cut could hide a secret's name."""
    text = " ".join(body[: 16 * most].decode("utf-8", "replace").replace("\x00", "").split())
    return redact(text)[:most]


def _hidden(value: str) -> str:
    """In the quotes that the value has, so that a document stays one."""
    quote = value[0] if value[0] in "\"'" else ""
    return f"{quote}{HIDDEN}{quote}"
