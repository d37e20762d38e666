"""`holdfast outbox`: pending and abandoned entries, and how to retry them."""

from __future__ import annotations

from dataclasses import asdict

import click

from ..app import App
from ..client.outbox import Outboxes
from .command import (
    EXIT_CODES,
    Command,
    Duration,
    actor_option,
    echo,
    json_option,
    reason_option,
    target_options,
    view_option,
)
from .locate import find_app
from .output import plain, print_json, print_table, say


@click.group(epilog=EXIT_CODES)
def outbox() -> None:
    """List outboxes, and retry their entries."""


@outbox.command("list", cls=Command)
@view_option
@json_option
@target_options
def list_(tenant: str | None, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """List the outboxes that have entries."""
    found = _outboxes(find_app(app_name, store), tenant).list()
    if as_json:
        print_json({"outboxes": [asdict(counts) for counts in found]})
        return
    rows = [(one.name, one.pending, one.sending, one.parked, one.delivered, one.abandoned, one.other) for one in found]
    names = ("outbox", "pending#", "sending#", "parked#", "delivered#", "abandoned#", "other#")
    print_table(names, rows, empty="no outbox has entries")


@outbox.command(cls=Command)
@click.argument("name")
@view_option
@actor_option
@reason_option
@json_option
@target_options
def retry(
    name: str, tenant: str | None, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str
) -> None:
    """Retry scheduled and parked entries now. Entries being sent are unchanged."""
    due = _outboxes(find_app(app_name, store), tenant).retry(name, **who)
    say({"outbox": name, "due": due}, f"{due:,} entries of {name} are due now", as_json)


@outbox.command(cls=Command)
@click.argument("name")
@click.option("--older-than", type=Duration(), help="Only entries older than this, such as 30d; 0 is all.")
@click.option("--apply", is_flag=True, help="Retry them; without it, preview only. Needs --older-than.")
@view_option
@actor_option
@reason_option
@json_option
@target_options
def drain(
    *,
    name: str,
    older_than: float | None,
    apply: bool,
    tenant: str | None,
    app_name: str | None,
    store: str | None,
    as_json: bool,
    debug: bool,
    **who: str,
) -> None:
    """List abandoned entries by kind; with --apply retry them."""
    if apply and older_than is None:
        raise click.UsageError("--apply needs --older-than: the minimum age of the entries, such as 30d, or 0 for all")
    report = _outboxes(find_app(app_name, store), tenant).drain(name, older_than=older_than, apply=apply, **who)
    if as_json:
        print_json(plain(report))
        return
    rows = [(kind or "(none)", n) for kind, n in report.kinds.items()]
    print_table(("kind", "abandoned#"), rows, empty=f"{name} has no abandoned entries")
    if report.total:
        again = "--apply" if older_than is not None else "--older-than 0 --apply"
        echo("they are pending again" if apply else f"preview only; to retry them, add {again}")
    if report.left:
        echo(f"{report.left:,} have used up their retries and stay abandoned")


def _outboxes(app: App, tenant: str | None) -> Outboxes:
    return app.outbox if tenant is None else app.scoped(tenant).outbox
