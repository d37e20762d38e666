"""`holdfast signals`: send signals, and list what waits for one."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from .command import EXIT_CODES, Command, actor_option, echo, json_option, reason_option, target_options
from .locate import find_app
from .output import instant, plain, print_json, print_table


@click.group(epilog=EXIT_CODES)
def signals() -> None:
    """Send signals to jobs, and list what waits for one."""


@signals.command(cls=Command)
@click.argument("target")
@click.option("--name", metavar="NAME", help="The signal's name; needed unless TARGET is a token.")
@click.option("--payload", metavar="JSON", default="null", help="The payload. [default: null]")
@click.option("--key", metavar="KEY", help="Idempotency key: repeating it changes nothing.")
@click.option("--source", metavar="NAME", default="", help="The source to record.")
@click.option("--tenant", metavar="NAME", help="Only jobs of this tenant.")
@json_option
@target_options
def send(
    target: str, payload: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **more: Any
) -> None:
    """Send a signal to a job by id, or with a waitpoint's token; - reads the token from standard input."""
    meant = sys.stdin.readline().strip() if target == "-" else target
    sent = find_app(app_name, store).signal(meant, payload=_payload(payload), **more)
    if as_json:
        print_json(plain(sent))
    elif sent.again:
        echo(f"job {sent.job_id}: already stored as signal {sent.seq}")
    else:
        echo(f"job {sent.job_id}: {'resumed by' if sent.effect == 'resumed' else 'stored as'} signal {sent.seq}")
    if sent.waits_for and not as_json:
        echo(f"the job waits for {', '.join(sent.waits_for)}; this signal is kept for a later wait")


@signals.command(cls=Command)
@click.argument("job", required=False)
@click.option("--tenant", metavar="NAME")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, metavar="N", help="[default: 100]")
@click.option("--after", metavar="ID", default="", help="Only those after this one: the `next` of the previous page.")
@json_option
@target_options
def pending(
    job: str | None, limit: int, app_name: str | None, store: str | None, as_json: bool, debug: bool, **more: Any
) -> None:
    """List what jobs wait for, waitpoints and signals, without tokens. Of one job, or of all."""
    found = find_app(app_name, store).signals.pending(job, limit=limit, **more)
    more_after = found[-1].id if len(found) == limit else None
    if as_json:
        print_json({"waitpoints": [plain(one.waitpoint) for one in found], "next": more_after})
        return
    rows = [
        (one.id, one.name, one.job_id, one.task, "yes" if one.awaited else "not yet",
         instant(one.expires_at, exact=False) if one.expires_at else "never", one.refusals)
        for one in found
    ]  # fmt: skip
    columns = ("waitpoint", "name", "job", "task…", "awaited", "expires", "refused#")
    print_table(
        columns, rows, empty="nothing pending; for other waiting jobs see: holdfast jobs list --state suspended"
    )
    if more_after:
        echo(f"\nmore: --after {more_after}")


@signals.command(cls=Command)
@click.argument("job")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, metavar="N", help="[default: 100]")
@click.option("--before", type=int, metavar="N", help="Only those before this number.")
@json_option
@target_options
def received(job: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **more: Any) -> None:
    """List the signals sent to a job, newest first, without their payloads."""
    found = find_app(app_name, store).signals.received(job, **more)
    if as_json:
        print_json({"signals": [plain(one) for one in found]})
        return
    rows = [(one.seq, one.name, one.source, instant(one.at, exact=False), one.taken_by or "unread") for one in found]
    print_table(("#", "name", "from", "at", "consumed by…"), rows, empty="no signals")


@signals.command(cls=Command)
@click.argument("job")
@click.option("--payload", metavar="JSON", default="null", help="The answer for the job. [default: null]")
@click.option("--tenant", metavar="NAME", help="Only jobs of this tenant.")
@actor_option
@reason_option
@json_option
@target_options
def resume(
    job: str, payload: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **more: Any
) -> None:
    """Resume a suspended job, whatever it waits for."""
    find_app(app_name, store).signals.resume(job, _payload(payload), **more)
    if as_json:
        print_json({"job_id": job, "resumed": True})
    else:
        echo(f"job {job} resumed")


def _payload(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as wrong:
        raise click.BadParameter(
            f"{text!r} is not valid JSON: {wrong}; a string needs quotes", param_hint="--payload"
        ) from None
