"""Draw the table of moves into docs/reference/states.md; with --check, only say whether it is stale.

The drawing stands between two comments. Everything else on the page is written by hand.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import Final

from holdfast.model.jobs import JobState
from holdfast.rules.lifecycle import MOVES, Event

PAGE: Final = Path(__file__).parent.parent / "docs" / "reference" / "states.md"
BEGIN: Final = "<!-- Made by tools/draw_lifecycle.py from rules/lifecycle.py; do not edit. -->"
END: Final = "<!-- End of what is made. -->"


def main(arguments: list[str]) -> int:
    before = PAGE.read_text("utf-8")
    after = redrawn(before)
    if "--check" in arguments:
        if before != after:
            print(f"{PAGE} is stale; run: python tools/draw_lifecycle.py")
        return int(before != after)
    PAGE.write_text(after, "utf-8")
    return 0


def redrawn(page: str) -> str:
    """The page with a fresh drawing."""
    head, _, rest = page.partition(BEGIN)
    _, found, tail = rest.partition(END)
    if not found:
        raise SystemExit(f"{PAGE} lacks the two comments that the drawing stands between")
    return f"{head}{BEGIN}\n\n{diagram()}\n\n{table()}\n\n{END}{tail}"


def diagram() -> str:
    """Every move as an arrow of a mermaid state diagram; moves between the same states share one."""
    arrows: defaultdict[tuple[JobState, JobState], list[Event]] = defaultdict(list)
    for (state, event), targets in MOVES.items():
        for target in targets:
            arrows[state, target].append(event)
    order = list(JobState)
    lines = [
        f"    {start} --> {end}: {', '.join(sorted(events))}"
        for (start, end), events in sorted(arrows.items(), key=lambda item: [order.index(s) for s in item[0]])
    ]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> ready: enqueue", *lines, "```"])


def table() -> str:
    """For each state and event, where the job may go."""
    order, events = list(JobState), list(Event)
    rows = sorted(MOVES.items(), key=lambda item: (order.index(item[0][0]), events.index(item[0][1])))
    lines = [
        f"| `{state}` | {event} | {' or '.join(f'`{target}`' for target in sorted(targets, key=order.index))} |"
        for (state, event), targets in rows
    ]
    return "\n".join(["| from | event | to |", "|---|---|---|", *lines])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
