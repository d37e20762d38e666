"""`holdfast queues`: see them, pause them, resume them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from ..names import check_queue
from .command import EXIT_CODES, Command, json_option, target_options
from .locate import find_app
from .output import print_json, print_table

_SHOWN = ("ready", "delayed", "running", "blocked", "suspended", "succeeded", "failed", "cancelled", "expired")


@click.group(epilog=EXIT_CODES)
def queues() -> None:
    """See queues, pause and resume them."""


@queues.command("list", cls=Command)
@json_option
@target_options
def list_(app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Every queue that has jobs or was paused, with how many jobs are in each state."""
    found = find_app(app_name, store).queues.list()
    if as_json:
        print_json({"queues": [{"name": q.name, "state": q.state, "jobs": q.counts} for q in found]})
        return
    shown = [name for name in _SHOWN if any(q.counts.get(name) for q in found)]
    rows = [(q.name, q.state, *(q.counts.get(name, 0) for name in shown)) for q in found]
    print_table(("queue", "state", *(f"{name}#" for name in shown)), rows, empty="no queues")


@queues.command(cls=Command)
@click.argument("names", metavar="QUEUE...", nargs=-1, required=True)
@json_option
@target_options
def pause(names: Sequence[str], app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Accept jobs but start none, in every worker. What runs goes on."""
    app = find_app(app_name, store)
    # All are checked before the first is changed.
    for name in [check_queue(name) for name in names]:
        app.queues.pause(name)
    _tell(names, "paused", as_json=as_json)


@queues.command(cls=Command)
@click.argument("names", metavar="QUEUE...", nargs=-1, required=True)
@json_option
@target_options
def resume(names: Sequence[str], app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Start jobs again."""
    app = find_app(app_name, store)
    for name in [check_queue(name) for name in names]:
        app.queues.resume(name)
    _tell(names, "active", as_json=as_json)


def _tell(names: Sequence[str], state: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"queues": [{"name": name, "state": state} for name in names]})
        return
    for name in names:
        click.echo(f"queue {name} is {state}")
