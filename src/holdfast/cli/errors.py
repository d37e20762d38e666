"""`holdfast errors`: errors grouped by task, exception and stack trace."""

from __future__ import annotations

import click

from .command import EXIT_CODES, Command, json_option, target_options
from .locate import find_app
from .output import console_for, instant, plain, print_facts, print_json, print_table


@click.group(epilog=EXIT_CODES)
def errors() -> None:
    """Show errors grouped by task, exception and stack trace."""


@errors.command("list", cls=Command)
@click.option("--task", metavar="NAME", help="Only of this task.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, help="[default: 20]")
@json_option
@target_options
def list_(task: str | None, limit: int, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """List the error groups, most recent first. Workers update the counts every few seconds."""
    found = find_app(app_name, store).errors.list(task=task, limit=limit)
    if as_json:
        print_json({"errors": [plain(group) for group in found]})
        return
    rows = [
        (
            group.fingerprint,
            group.count,
            group.task,
            group.type,
            instant(group.first_seen, exact=False),
            instant(group.last_seen, exact=False),
            " ".join(group.message.split())[:200],
        )
        for group in found
    ]
    columns = ("fingerprint", "runs#", "task", "type", "first seen", "last seen", "message…")
    print_table(columns, rows, empty="no errors")


@errors.command(cls=Command)
@click.argument("fingerprint")
@json_option
@target_options
def show(fingerprint: str, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Show an error group with its latest traceback."""
    group = find_app(app_name, store).errors.show(fingerprint)
    if as_json:
        print_json(plain(group))
        return
    print_facts(
        [
            ("fingerprint", group.fingerprint),
            ("task", group.task),
            ("type", group.type),
            ("runs", group.count),
            ("first seen", instant(group.first_seen, exact=False)),
            ("last seen", instant(group.last_seen, exact=False)),
            ("last job", group.last_job),
            ("message", group.message),
        ]
    )
    if group.traceback:
        console_for().print("\n" + group.traceback.rstrip())
