"""`holdfast workers`: who works on this store."""

from __future__ import annotations

import click

from .command import EXIT_CODES, Command, json_option, target_options
from .locate import find_app
from .output import instant, print_json, print_table
from .shapes import worker_data, worker_state


@click.group(epilog=EXIT_CODES)
def workers() -> None:
    """See the workers of a store."""


@workers.command("list", cls=Command)
@json_option
@target_options
def list_(app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Every registered worker, the oldest first."""
    found = find_app(app_name, store).workers.list()
    if as_json:
        print_json({"workers": [worker_data(worker) for worker in found]})
        return
    rows = [
        (
            worker.name,
            worker_state(worker),
            ", ".join(worker.queues),
            worker.concurrency,
            instant(worker.started_at, exact=False),
            instant(worker.beat_at, exact=False),
            worker.version,
            worker.id,
        )
        for worker in found
    ]
    columns = ("name", "state", "queues…", "slots#", "started", "last beat", "version", "id")
    print_table(columns, rows, empty="no workers")
