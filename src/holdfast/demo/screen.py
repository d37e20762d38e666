"""What the demo shows while it runs: a live picture on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .plan import TOTAL

_STYLES: Final = {
    "ready": "cyan", "delayed": "blue", "running": "yellow",
    "succeeded": "green", "failed": "red", "cancelled": "magenta",
}  # fmt: skip
_BETWEEN_LINES: Final = 1.0


class Screen:
    """Events as they happen, and how many jobs are in each state."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._events: list[Text] = []
        self._counts: Mapping[str, int] = {}
        self._line_at = 0.0
        self._live = Live(console=console, refresh_per_second=8, transient=True) if console.is_terminal else None

    def __enter__(self) -> Screen:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            for event in self._events:
                self._console.print(event)

    def say(self, text: str, style: str = "") -> None:
        """Something happened."""
        event = Text.assemble((f"{time.monotonic() - self._began:6.2f} s  ", "dim"), (text, style))
        self._events.append(event)
        if self._live is None:
            self._console.print(event)
        else:
            self._draw()

    def show(self, counts: Mapping[str, int]) -> None:
        """The counts by state have changed."""
        self._counts = counts
        if self._live is not None:
            self._draw()
        elif time.monotonic() - self._line_at >= _BETWEEN_LINES:
            self._line_at = time.monotonic()
            self.say(", ".join(f"{number:,} {state}" for state, number in counts.items()))

    def _draw(self) -> None:
        assert self._live is not None
        states = Table.grid(padding=(0, 2))
        states.add_column(width=10)
        states.add_column(justify="right", width=6)
        states.add_column()
        for state, style in _STYLES.items():
            number = self._counts.get(state, 0)
            bar = ProgressBar(total=TOTAL, completed=number, width=40, complete_style=style, finished_style=style)
            states.add_row(Text(state, style), f"{number:,}", bar)
        self._live.update(Group(*self._events, Text(), states))
