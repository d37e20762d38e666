"""The search syntax: `queue:mail state:failed tag:x "some text"`. Parses text into a `Search`, and formats it back.

A term is a word, a text in quotes, or a qualifier with a value. Errors name the invalid term.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from ...errors import InvalidInput
from ...model.answers import LATER
from ...model.jobs import JobState
from .values import Bound, check_since, read_bound, read_length

MOST: Final = 1_000
"""Characters of a search."""

_TERM: Final = re.compile(r"""(?:(?P<key>[A-Za-z_]+):)?(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s"]+))(?=\s|$)""")
_UNSEEN: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1b\x7f]")
_UNSAID: Final = re.compile(r"[A-Za-z_]+:")
_PLAIN: Final = re.compile(r"""[^\s"\\:]+""")


class BadSearch(InvalidInput):
    """The search cannot be parsed; the message says where and how to fix it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A parsed search. None means no condition."""

    state: str | None = None
    label: str | None = None
    """delayed, retrying or throttled: ready, but not due yet."""
    queue: str | None = None
    task: str | None = None
    tenant: str | None = None
    reason: str | None = None
    flow: str | None = None
    worker: str | None = None
    """The id of the worker that holds it."""
    affinity: str | None = None
    """Its affinity, such as a model."""
    error: str | None = None
    """The fingerprint of its last error."""
    created_by: str | None = None
    """The actor that enqueued it."""
    tags: tuple[str, ...] = ()
    """All of them must match."""
    attempts: Bound | None = None
    priority: Bound | None = None
    took: Bound | None = None
    """Its run time in microseconds."""
    since: str | None = None
    """Created at that time or later; "2h" is two hours ago."""
    until: str | None = None
    ended_since: str | None = None
    """Finished at that time or later. With this or the next, results are ordered by end, latest first."""
    ended_until: str | None = None
    words: tuple[str, ...] = ()
    """Texts that occur anywhere in it."""

    def but(self, **changes: Any) -> Search:
        """Return a copy with some fields replaced."""
        return replace(self, **changes)

    @property
    def is_empty(self) -> bool:
        return self == NOTHING


NOTHING: Final = Search()
KNOWN: Final = tuple("tag" if f.name == "tags" else f.name for f in fields(Search) if f.name != "words")
"""Return the qualifiers."""


def parse(text: str) -> Search:
    """Parse a search. Raises BadSearch if it is invalid."""
    if len(text) > MOST:
        raise BadSearch(f"the search has {len(text):,} characters; at most {MOST:,} are read")
    if unseen := _UNSEEN.search(text):
        raise BadSearch(f"the search contains the control character U+{ord(unseen[0]):04X}; remove it")
    found: dict[str, Any] = {}
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        term = _TERM.match(text, at)
        if term is None:
            raise _unreadable(text, at)
        _take(found, term)
        at = term.end()
    return Search(**found)


def write(search: Search) -> str:
    """Format a search so that `parse` returns the same."""
    terms = [f"{name}:{_quoted(str(value))}" for name in KNOWN if (value := getattr(search, name, None)) is not None]
    terms += [f"tag:{_quoted(tag)}" for tag in search.tags]
    return " ".join([*terms, *(_quoted(word) for word in search.words)])


def _take(found: dict[str, Any], term: re.Match[str]) -> None:
    key, value = term["key"], term["bare"]
    if value is None:
        value = re.sub(r"\\(.)", r"\1", term["quoted"], flags=re.DOTALL)
    if key is None:
        if term["bare"] is not None and _UNSAID.fullmatch(value):
            raise BadSearch(f'"{value}" has no value; write it right after the colon, or put the text in quotes')
        _add(found, "words", value)
        return
    name = key.lower()
    if name not in KNOWN:
        raise BadSearch(f'there is no qualifier "{key}:"; use {", ".join(KNOWN)}, or put the text in quotes')
    if not value:
        raise BadSearch(f'"{name}:" has no value; write for example {name}:{_EXAMPLES[name]}')
    if name == "tag":
        _add(found, "tags", value)
    elif name in found:
        raise BadSearch(f'"{name}:" is given twice; give it once')
    else:
        found[name] = _read(name, value)


def _add(found: dict[str, Any], name: str, value: str) -> None:
    if not value:
        raise BadSearch("there is nothing between the quotes")
    found[name] = tuple(dict.fromkeys((*found.get(name, ()), value)))


def _read(name: str, value: str) -> Any:
    try:
        if name in ("attempts", "priority"):
            return read_bound(value)
        if name == "took":
            return read_bound(value, read_length)
        if name in ("since", "until", "ended_since", "ended_until"):
            return check_since(value)
    except ValueError:
        raise BadSearch(f'"{name}:{value}" is invalid; write for example {name}:{_EXAMPLES[name]}') from None
    if name == "state" and value not in list(JobState):
        raise BadSearch(f"there is no state {value!r}; use one of {', '.join(JobState)}")
    if name == "label" and value not in LATER:
        raise BadSearch(f"there is no label {value!r} to search for; use one of {', '.join(LATER)}, or a state")
    return value


def _unreadable(text: str, at: int) -> BadSearch:
    rest = text[at : at + 40]
    return BadSearch(f"a quote is not closed, or there is no space around it: {rest}")


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


_EXAMPLES: Final = {
    "state": "failed",
    "label": "delayed",
    "queue": "mail",
    "task": "billing.charge",
    "tenant": "acme",
    "reason": "retry",
    "flow": "01JQ…",
    "worker": "01JQ…",
    "affinity": "llama3",
    "error": "4f1d0c…",
    "created_by": "token:shop",
    "tag": "invoice",
    "attempts": ">2",
    "priority": ">=5",
    "took": ">30s",
    "since": "1h, or since:2026-11-15T09:00",
    "until": "15m, or until:2026-11-15T09:00",
    "ended_since": "1h, or ended_since:2026-11-15T09:00",
    "ended_until": "15m, or ended_until:2026-11-15T09:00",
}
