"""`holdfast signals`: send one, and see what waits for one."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from ..shapes.signals import of_letter, of_pending, of_sent
from .command import EXIT_CODES, Command, json_option, target_options
from .locate import find_app
from .operator import actor_option, reason_option
from .output import instant, plain, print_json, print_table


@click.group(epilog=EXIT_CODES)
def signals() -> None:
    """Send signals to jobs, and see what waits for one."""


@signals.command(cls=Command)
@click.argument("target")
@click.option("--name", metavar="NAME", help="The signal's name; needed unless TARGET is a token.")
@click.option("--payload", metavar="JSON", default="null", help="What it says. [default: null]")
@click.option("--key", metavar="KEY", help="A second signal with the same key is the same signal.")
@click.option("--source", metavar="NAME", default="", help="Who sends it.")
@click.option("--tenant", metavar="NAME", help="As if jobs of other tenants did not exist.")
@json_option
@target_options
def send(
    target: str, payload: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **more: Any
) -> None:
    """Send a signal to a job by its id, or with a waitpoint's token; - reads that from standard input."""
    meant = sys.stdin.readline().strip() if target == "-" else target
    sent = find_app(app_name, store).signal(meant, payload=_payload(payload), **more)
    if as_json:
        print_json(plain(of_sent(sent)))
    elif sent.again:
        click.echo(f"job {sent.job_id} had it already, as signal {sent.seq}")
    else:
        click.echo(f"job {sent.job_id} {'goes on' if sent.effect == 'resumed' else 'has it'}, as signal {sent.seq}")
    if sent.waits_for and not as_json:
        click.echo(f"it waits for {', '.join(sent.waits_for)}; this one is kept for a later wait")


@signals.command(cls=Command)
@click.argument("job", required=False)
@click.option("--tenant", metavar="NAME")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, metavar="N", help="[default: 100]")
@click.option("--after", metavar="ID", default="", help="Only those after this one: the `next` of the page before.")
@json_option
@target_options
def pending(
    job: str | None, limit: int, app_name: str | None, store: str | None, as_json: bool, debug: bool, **more: Any
) -> None:
    """Waitpoints that take a signal, and names that jobs wait for, of one job or of all, without their tokens."""
    found = find_app(app_name, store).signals.pending(job, limit=limit, **more)
    more_after = found[-1].id if len(found) == limit else None
    if as_json:
        print_json({"waitpoints": [plain(of_pending(one)) for one in found], "next": more_after})
        return
    rows = [
        (one.id, one.name, one.job_id, one.task, "yes" if one.awaited else "not yet",
         instant(one.expires_at, exact=False) if one.expires_at else "never", one.refusals)
        for one in found
    ]  # fmt: skip
    columns = ("waitpoint", "name", "job", "task…", "awaited", "expires", "refused#")
    print_table(
        columns, rows, empty="nothing is pending; jobs that wait otherwise: holdfast jobs list --state suspended"
    )
    if more_after:
        click.echo(f"\nthere may be more: --after {more_after}")


@signals.command(cls=Command)
@click.argument("job")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, metavar="N", help="[default: 100]")
@click.option("--before", type=int, metavar="N", help="Only those before this number.")
@json_option
@target_options
def received(job: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **more: Any) -> None:
    """The signals that a job was sent, newest first, without their payloads."""
    found = find_app(app_name, store).signals.received(job, **more)
    if as_json:
        print_json({"signals": [plain(of_letter(one)) for one in found]})
        return
    rows = [(one.seq, one.name, one.source, instant(one.at, exact=False), one.taken_by or "unread") for one in found]
    print_table(("#", "name", "from", "at", "taken by…"), rows, empty="no signals")


@signals.command(cls=Command)
@click.argument("job")
@click.option("--payload", metavar="JSON", default="null", help="What the job gets as its answer. [default: null]")
@click.option("--tenant", metavar="NAME", help="As if jobs of other tenants did not exist.")
@actor_option
@reason_option
@json_option
@target_options
def resume(
    job: str, payload: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **more: Any
) -> None:
    """Let a suspended job go on, whatever it waits for."""
    find_app(app_name, store).signals.resume(job, _payload(payload), **more)
    if as_json:
        print_json({"job_id": job, "resumed": True})
    else:
        click.echo(f"job {job} goes on")


def _payload(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as wrong:
        raise click.BadParameter(
            f"{text!r} is not JSON: {wrong}; a text needs quotes", param_hint="--payload"
        ) from None
