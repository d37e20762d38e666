"""`holdfast workers`: workers, expired leases, and marking a worker dead."""

from __future__ import annotations

from typing import Any

import click

from ..clock import SECOND
from ..model.actions import Lease
from .command import EXIT_CODES, FAILED, Command, actor_option, echo, json_option, target_options
from .locate import find_app
from .output import instant, plain, print_json, print_table
from .stats import queue_names


@click.group(epilog=EXIT_CODES)
def workers() -> None:
    """List the workers of a store, check one, and mark one dead."""


@workers.command("list", cls=Command)
@json_option
@target_options
def list_(app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """List the registered workers, oldest first."""
    found = find_app(app_name, store).workers.list()
    if as_json:
        print_json({"workers": [plain(worker) for worker in found]})
        return
    rows = [
        (
            worker.name,
            worker.state,
            queue_names(worker.queues),
            worker.concurrency,
            worker.running,
            ", ".join(worker.oldest[:1]),
            instant(worker.started_at, exact=False),
            instant(worker.beat_at, exact=False),
            worker.version,
            worker.id,
        )
        for worker in found
    ]
    columns = (
        "name",
        "state",
        "queues…",
        "slots#",
        "running#",
        "oldest job",
        "started",
        "last heartbeat",
        "version",
        "id",
    )
    print_table(columns, rows, empty="no workers")


@workers.command(cls=Command)
@click.argument("worker_id", metavar="ID")
@click.option("--reason", required=True, metavar="TEXT", help="Reason, up to 256 bytes; kept in the audit log.")
@actor_option
@json_option
@target_options
def dead(
    worker_id: str, app_name: str | None, store: str | None, reason: str, actor: str, as_json: bool, debug: bool
) -> None:
    """Mark a worker dead: its jobs are rescued now, and its process stops them if it is still running."""
    done = find_app(app_name, store).workers.mark_dead(worker_id, reason, actor=actor)
    if as_json:
        print_json({"worker": done.worker, "rescued": done.rescued, "again": done.again})
    else:
        echo(f"{worker_id} was already marked dead" if done.again else f"{worker_id}: {done.rescued:,} jobs rescued")


@workers.command(cls=Command)
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, metavar="N", help="[default: 100]")
@click.option("--after", default="", metavar="JOB", help="Only jobs after this one: the `next` of the previous page.")
@json_option
@target_options
def leases(app_name: str | None, store: str | None, limit: int, after: str, as_json: bool, debug: bool) -> None:
    """List the jobs leased to workers that are dead, or have not renewed their lease."""
    found = find_app(app_name, store).jobs.expired_leases(after=after, limit=limit)
    more = found[-1].job if len(found) == limit else None
    if as_json:
        print_json({"leases": [_lease(one) for one in found], "next": more})
        return
    rows = [(one.job, one.task, one.queue, one.owner, one.epoch, f"{one.overdue / SECOND:.0f} s") for one in found]
    print_table(("job", "task", "queue", "worker", "epoch#", "overdue"), rows, empty="no expired leases")
    if more is not None:
        echo(f"more: --after {more}")


@workers.command(cls=Command)
@click.option("--ready", is_flag=True, help="Ask whether it starts jobs, not only whether it is alive.")
@click.option(
    "--health-port",
    type=click.IntRange(1, 65_535),
    required=True,
    metavar="PORT",
    envvar="HOLDFAST_HEALTH_PORT",
    help="The --health-port of the worker.",
)
@json_option
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def check(*, ready: bool, health_port: int, as_json: bool, debug: bool) -> None:
    """Check the worker of this machine or container; exits with 1 if it is not alive, or not ready."""
    from ..runtime.probes import ask

    good, text = ask("ready" if ready else "live", health_port)
    if as_json:
        print_json({"ok": good, "message": text})
    else:
        echo(text, err=not good)
    if not good:
        click.get_current_context().exit(FAILED)


def _lease(one: Lease) -> dict[str, Any]:
    return {
        "job": one.job,
        "task": one.task,
        "queue": one.queue,
        "tenant": one.tenant,
        "worker": one.owner,
        "worker_state": one.worker_state,
        "epoch": one.epoch,
        "claimed_at": instant(one.claimed_at),
        "lease_until": instant(one.lease_until),
        "overdue": one.overdue / SECOND,
    }
