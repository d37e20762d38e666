"""Recognises errors of the same kind: same task, same types, same way through the code.

Folders, line numbers, source text, ids, numbers and addresses do not count, so that neither a redeployment nor another
order number makes a new kind of error.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

_FRAMES: Final = 20
"""From the end, where it happened: the beginning of a long traceback may be cut off."""
_FRAME: Final = re.compile(r'^\s*(?:\|\s*)*File "(?P<path>[^"]*)", line \d+(?:, in (?P<name>.*))?$')
_RAISED: Final = re.compile(r"^(?:\|\s*)*(?:\+ )?(?P<type>[A-Za-z_][\w.]*)(?:: .*)?$")
_LINK: Final = re.compile(r"^(During handling of|The above exception was)")
_OWN: Final = re.compile(r"(^|[/\\])holdfast[/\\](engine[/\\]|apart\.py)")

_VARIABLE: Final = re.compile(
    r"""(?P<q>['"]).*?(?P=q)"""  # what is quoted is mostly a value
    r"|\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"
    r"|\b0x[0-9a-fA-F]+\b"
    r"|\b(?=\w*\d)[\w-]{16,}\b"
    r"|(?:[A-Za-z]:)?(?:[/\\][\w.@-]+){2,}"
    r"|\d+(?:\.\d+)*"
)
_COUNTED: Final = re.compile(r"<locals>\.|<lambda>|\b\d+\b")


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A kind of error, and this one as its sample."""

    key: str
    type: str
    message: str
    traceback: str


def fingerprint(task: str, error: str) -> Fingerprint:
    """The kind of a stored error; one that is no JSON is a kind by its text."""
    record = _decoded(error)
    kind, message, trace = (_text(record, name) for name in ("type", "message", "traceback"))
    way = normalised_traceback(trace) if trace else ""
    # Without a way through the code the message is all that tells one error from another.
    parts = (task, kind, way or normalised_message(message))
    key = hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:16]
    return Fingerprint(key, kind or "unknown", message, trace)


@lru_cache(256)
def normalised_traceback(trace: str) -> str:
    """The files and functions on the way to the error, and the types that were raised; nothing else."""
    steps: list[str] = []
    for line in trace.splitlines():
        if frame := _FRAME.match(line):
            if not _OWN.search(frame["path"]):
                steps.append(f"{_file(frame['path'])}:{_COUNTED.sub('', frame['name'] or '')}")
        elif _LINK.match(line):
            steps.append("--")
        elif not line.startswith(" ") and (raised := _RAISED.match(line)):
            steps.append(f"!{raised['type']}")
    return "\n".join(_without_repeats(steps)[-_FRAMES:])


def normalised_message(message: str) -> str:
    """A message without its values."""
    return " ".join(_VARIABLE.sub("?", message).split())


def _without_repeats(steps: list[str]) -> list[str]:
    """A recursion is one step, however deep it went."""
    return [step for i, step in enumerate(steps) if i == 0 or step != steps[i - 1]]


def _file(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def _decoded(error: str) -> dict[str, Any]:
    try:
        record = json.loads(error)
    except ValueError:
        return {"message": error}
    return record if isinstance(record, dict) else {"message": error}


def _text(record: dict[str, Any], name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""
