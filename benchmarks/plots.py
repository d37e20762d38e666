"""Plots as SVG: rates as bars, delays as cumulative curves. Plain text, so that they need nothing and diff well."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

WIDTH: Final = 760
LEFT: Final = 250
BAR: Final = 24
COLOURS: Final = ("#2f6fb3", "#b5651d", "#3c8d40", "#8a4fa3", "#b03a48", "#5b6670", "#c29a1b", "#2a9d9d")
_HEAD: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">\n'
    "<style>.ground {{ fill: #fff }} text {{ fill: #1c2024 }} @media (prefers-color-scheme: dark)"
    " {{ .ground {{ fill: #16181b }} text {{ fill: #d8dde2 }} line {{ stroke: #33383d }} }}</style>\n"
    '<rect class="ground" width="{width}" height="{height}"/>\n'
    '<text x="12" y="24" font-size="16" font-weight="bold">{title}</text>\n'
)


def bars(title: str, values: Sequence[tuple[str, float, bool]]) -> str:
    """One bar for each (label, jobs a second, whether it is ours), in the order given."""
    largest = max((value for _, value, _ in values), default=1.0)
    lines = [_head(title, 48 + BAR * len(values))]
    for index, (label, value, ours) in enumerate(values):
        top = 40 + BAR * index
        colour = COLOURS[0 if ours else 5]
        length = max(1.0, (WIDTH - LEFT - 90) * value / largest)
        lines += [
            _text(LEFT - 8, top + 14, label, "end"),
            f'<rect x="{LEFT}" y="{top}" width="{length:.1f}" height="{BAR - 6}" fill="{colour}"/>\n',
            _text(LEFT + length + 6, top + 14, f"{value:,.0f}/s"),
        ]
    return "".join(lines) + "</svg>\n"


def curves(title: str, distributions: Mapping[str, Sequence[float]]) -> str:
    """The share of samples below each delay, in milliseconds on a logarithmic scale; values are 101 quantiles."""
    area = _Area.around([value for quantiles in distributions.values() for value in quantiles])
    lines = [_head(title, 400), area.grid()]
    for index, (label, quantiles) in enumerate(distributions.items()):
        colour = COLOURS[index % len(COLOURS)]
        points = " ".join(f"{area.x(value):.1f},{area.y(share):.1f}" for share, value in enumerate(quantiles))
        lines += [
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>\n',
            f'<rect x="{WIDTH - 245}" y="{250 + 20 * index}" width="12" height="12" fill="{colour}"/>\n',
            _text(WIDTH - 226, 261 + 20 * index, label),
        ]
    return "".join(lines) + "</svg>\n"


class _Area:
    """Where delays and shares lie in the plot."""

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most

    @classmethod
    def around(cls, values: Sequence[float]) -> _Area:
        positive = [value for value in values if value > 0] or [1.0]
        return cls(math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)) + 1e-9))

    def x(self, value: float) -> float:
        share = (math.log10(max(value, 10.0**self._least)) - self._least) / max(1, self._most - self._least)
        return 60 + share * (WIDTH - 90)

    def y(self, share: float) -> float:
        return 340 - share * 2.9

    def grid(self) -> str:
        lines = []
        for power in range(self._least, self._most + 1):
            x = self.x(10.0**power)
            lines += [_line(x, self.y(0), x, self.y(100)), _text(x, 360, f"{10.0**power:g} ms", "middle")]
        for share in (0, 50, 90, 99):
            y = self.y(share)
            lines += [_line(60, y, WIDTH - 30, y), _text(54, y + 4, f"{share} %", "end")]
        return "".join(lines)


def _head(title: str, height: int) -> str:
    return _HEAD.format(width=WIDTH, height=height, title=escape(title))


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>\n'


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>\n'
