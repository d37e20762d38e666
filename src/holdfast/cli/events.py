"""`holdfast events`: read and follow the event log."""

from __future__ import annotations

from typing import Any

import click

from ..model.events import Event
from .command import EXIT_CODES, Command, echo, json_option, target_options
from .locate import find_app
from .output import instant, json_line, plain


@click.group(epilog=EXIT_CODES)
def events() -> None:
    """Read and follow the event log."""


@events.command(cls=Command)
@click.option(
    "--after", metavar="CURSOR", help='Resume after this event; "start" reads all stored events. [default: now]'
)
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="For example job.failed, job, flow, operator.")
@click.option("--job", metavar="ID")
@click.option("--task", metavar="NAME")
@click.option("--queue", metavar="NAME")
@click.option("--flow", metavar="ID")
@click.option("--tenant", metavar="NAME")
@click.option("--tag", metavar="TAG")
@click.option(
    "--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Stop after this long without an event."
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after this many events.")
@json_option
@target_options
def tail(
    *, app_name: str | None, store: str | None, kinds: tuple[str, ...], limit: int | None, as_json: bool, debug: bool,
    **wanted: Any,
) -> None:  # fmt: skip
    """Print events as they happen, one per line, until interrupted. With --json each line is an object."""
    feed = find_app(app_name, store).events(kinds=kinds or None, **wanted)
    try:
        for count, event in enumerate(feed, 1):
            echo(json_line(plain(event)) if as_json else line(event))
            if count == limit:
                return
    except KeyboardInterrupt:
        if not as_json and feed.cursor:
            echo(f"\nto resume from here: --after {feed.cursor}", err=True)


def line(event: Event) -> str:
    """Format an event."""
    who = event.job or event.flow or event.detail.get("target") or ""
    named = {"queue": event.queue, "tenant": event.tenant, "attempt": event.attempt, "by": event.detail.get("actor")}
    facts = [event.task, *(f"{name} {value}" for name, value in named.items() if value)]
    details = ", ".join(str(fact) for fact in (*facts, event.reason, event.detail.get("name")) if fact)
    return f"{instant(event.at, exact=False)}  {event.kind:<18}  {who}  {details}".rstrip()
