"""`holdfast audit`: the audit log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from .command import EXIT_CODES, Command, echo, json_option, target_options, view_option
from .locate import find_app
from .output import instant, json_line, plain, print_json, print_table


@click.group(epilog=EXIT_CODES)
def audit() -> None:
    """Show operator actions from the audit log."""


@audit.command("list", cls=Command)
@click.option("--actor", metavar="NAME")
@click.option("--action", metavar="NAME", help="For example queue.pause or job.retry.")
@click.option("--kind", "target_kind", metavar="KIND", help="Kind of target: queue, job, …")
@click.option("--target", metavar="NAME", help="Its name or id; needs --kind.")
@view_option
@click.option("--since", type=click.DateTime(), help="In UTC.")
@click.option("--until", type=click.DateTime(), help="In UTC.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, metavar="N", help="[default: 50]")
@click.option("--before", metavar="ID", help="Only records before this one: the `next` of the previous page.")
@json_option
@target_options
def list_(app_name: str | None, store: str | None, as_json: bool, debug: bool, **wanted: Any) -> None:
    """List audit records, newest first."""
    for name in ("since", "until"):
        wanted[name] = _in_utc(wanted[name])
    found = find_app(app_name, store).audit.list(**wanted)
    more = found[-1].id if len(found) == wanted["limit"] else None
    if as_json:
        print_json({"records": [plain(record) for record in found], "next": more})
        return
    rows = [
        (
            instant(r.at, exact=False),
            r.actor,
            r.action,
            r.target,
            r.tenant,
            _line(r.before),
            _line(r.after),
            r.reason,
            r.id,
        )
        for r in found
    ]
    columns = ("at", "actor", "action", "target…", "tenant", "before…", "after…", "reason…", "id")
    print_table(columns, rows, empty="no records")
    if more:
        echo(f"\nmore: --before {more}")


def _line(value: Any) -> str | None:
    return None if value is None else json_line(value)


def _in_utc(at: datetime | None) -> datetime | None:
    return None if at is None else at.replace(tzinfo=UTC)
