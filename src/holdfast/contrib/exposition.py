"""The Prometheus text format: families of samples, written with correct escaping. Needs no library."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Kind = Literal["gauge", "counter", "histogram"]
Labels = Mapping[str, str]

_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its name, what it is, and the names of its labels."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or not all(_LABEL.fullmatch(label) for label in self.labels):
            raise ValueError(f"{self.name!r} with {self.labels!r} is no name of a metric")


@dataclass
class Exposition:
    """Samples by family, in the order in which the families came."""

    _lines: dict[Family, list[str]] = field(default_factory=dict)

    def add(self, family: Family, value: float | None, *labels: str) -> None:
        """Add a sample; None is left out."""
        if value is not None:
            line = f"{family.name}{_labels(family.labels, labels)} {number(value)}"
            self._lines.setdefault(family, []).append(line)

    def add_histogram(
        self, family: Family, bounds: Iterable[float], counts: Iterable[int], total: float, *labels: str
    ) -> None:
        """Add a distribution: `counts` for each bound and one more beyond them, not cumulative."""
        lines, seen, names = self._lines.setdefault(family, []), 0, (*family.labels, "le")
        for bound, count in zip([*bounds, math.inf], counts, strict=True):
            seen += count
            lines.append(f"{family.name}_bucket{_labels(names, (*labels, number(bound)))} {seen}")
        lines.append(f"{family.name}_sum{_labels(family.labels, labels)} {number(total)}")
        lines.append(f"{family.name}_count{_labels(family.labels, labels)} {seen}")

    def text(self) -> str:
        parts: list[str] = []
        for family, lines in self._lines.items():
            parts += [f"# HELP {family.name} {_escaped_help(family.help)}", f"# TYPE {family.name} {family.kind}"]
            parts += lines
        return "\n".join([*parts, ""])


def number(value: float) -> str:
    """Return a number in the text format."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def escaped(value: str) -> str:
    """Return a label's value as it is written between its quotes."""
    # Some readers take a carriage return for the end of the line, and the format has no escape for it.
    text = value.encode("utf-8", "replace").decode("utf-8").replace("\r", " ")
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _escaped_help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    if not names:
        return ""
    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in zip(names, values, strict=True)) + "}"
