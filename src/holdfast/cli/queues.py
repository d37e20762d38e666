"""`holdfast queues`: state and settings of queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click
import msgspec

from ..app import App
from ..errors import InvalidInput, NotFound
from ..model.queues import QueueBrief
from ..names import check_queue
from ..rules.enums import allowed_values
from ..rules.retry import RetryPolicy
from .command import (
    EXIT_CODES,
    Command,
    Duration,
    actor_option,
    echo,
    for_people,
    json_option,
    reason_option,
    target_options,
)
from .grants import stranded_data, warn_of
from .locate import find_app
from .output import plain, print_facts, print_json, print_table
from .stats import queue_name

_SHOWN: Final = (
    "ready", "delayed", "running", "blocked", "suspended", "succeeded", "failed", "cancelled", "expired", "skipped",
)  # fmt: skip
_DURATIONS: Final = (
    "timeout", "keep_succeeded", "keep_failed", "keep_cancelled", "keep_expired", "keep_skipped", "keep_result",
)  # fmt: skip


@click.group(epilog=EXIT_CODES)
def queues() -> None:
    """List, pause, resume, drain and configure queues."""


@queues.command("list", cls=Command)
@json_option
@target_options
def list_(app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """List the queues that have jobs or settings, with job counts by state. ~ marks an estimate."""
    app = find_app(app_name, store)
    found, stranded = app.queues.list(), app.queues.stranded()
    if as_json:
        print_json({"queues": [plain(queue) for queue in found], "stranded": stranded_data(stranded)})
        return
    shown = [name for name in _SHOWN if any(q.jobs.get(name) for q in found)]
    rows = [(queue_name(q.name), q.state, *(_number(q, name) for name in shown), _age(q)) for q in found]
    print_table(("queue", "state", *(f"{name}#" for name in shown), "oldest due#"), rows, empty="no queues")
    warn_of(stranded)


@queues.command(cls=Command)
@click.argument("name", metavar="QUEUE")
@json_option
@target_options
def show(name: str, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Show a queue's state and settings."""
    app = find_app(app_name, store)
    settings = app.queues.get(name)
    if name not in _there(app):
        raise NotFound("queue", name)
    if as_json:
        print_json(plain(settings))
        return
    facts: list[tuple[str, object]] = [("queue", settings.name), ("state", str(settings.state))]
    facts.append(("retry", msgspec.json.encode(settings.retry).decode() if settings.retry else "default"))
    facts += [(field.replace("_", " "), for_people(getattr(settings, field))) for field in _DURATIONS]
    facts.append(("cap", "none" if settings.cap is None else f"{settings.cap:,}"))
    facts.append(("events", settings.events))
    print_facts(facts)


def _switch(verb: str, text: str) -> None:
    """Return a command that changes the state of queues."""

    @queues.command(verb, cls=Command, help=text)
    @click.argument("names", metavar="QUEUE...", nargs=-1, required=True)
    @actor_option
    @reason_option
    @json_option
    @target_options
    def run(
        names: Sequence[str], app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str
    ) -> None:
        app = find_app(app_name, store)
        # All names are validated before the first queue is changed.
        states = [getattr(app.queues, verb)(name, **who).state for name in [check_queue(name) for name in names]]
        if as_json:
            print_json({"queues": [{"name": n, "state": str(s)} for n, s in zip(names, states, strict=True)]})
            return
        for name, state in zip(names, states, strict=True):
            echo(f"queue {name} is {state}")


_switch("pause", "Accept jobs but start none, in every worker. Running jobs finish.")
_switch("resume", "Accept and start jobs again.")
_switch("drain", "Run the jobs in the queue, and reject new ones.")
_switch("disable", "Start no jobs, and reject new ones.")


@queues.command("set", cls=Command)
@click.argument("name", metavar="QUEUE")
@click.option("--retry", metavar="JSON", help='A retry policy, such as {"kind":"fixed","initial":5}, or "default".')
@click.option("--timeout", type=Duration(default=True), default=..., help="Timeout of one run.")
@click.option(
    "--keep-succeeded",
    type=Duration(default=True),
    default=...,
    help="Retention of succeeded jobs; 0 deletes them.",
)
@click.option("--keep-failed", type=Duration(default=True), default=..., help="Retention of failed jobs.")
@click.option("--keep-cancelled", type=Duration(default=True), default=..., help="Retention of cancelled jobs.")
@click.option("--keep-expired", type=Duration(default=True), default=..., help="Retention of expired jobs.")
@click.option("--keep-skipped", type=Duration(default=True), default=..., help="Retention of skipped jobs.")
@click.option("--cap", metavar="N", help='Maximum number of finished jobs to keep; "default" is unlimited.')
@click.option("--events", metavar="LEVEL", help='Events to log: off, outcomes, all, or "default".')
@click.option("--keep-result", type=Duration(default=True), default=..., help="Retention of results.")
@actor_option
@reason_option
@json_option
@target_options
def set_(
    *,
    name: str,
    app_name: str | None,
    store: str | None,
    retry: str | None,
    cap: str | None,
    events: str | None,
    actor: str,
    reason: str,
    as_json: bool,
    debug: bool,
    **durations: Any,
) -> None:
    """Change a queue's settings. Durations are in seconds, or for example 30m, 12h, 7d; "default" resets one."""
    changes: dict[str, Any] = {key: value for key, value in durations.items() if value is not ...}
    if retry is not None:
        changes["retry"] = None if retry == "default" else _policy(retry)
    if cap is not None:
        changes["cap"] = None if cap == "default" else _number_of(cap)
    if events is not None:
        changes["events"] = None if events == "default" else events
    if not changes:
        raise InvalidInput("nothing to set; give at least one setting, see --help")
    after = find_app(app_name, store).queues.set(name, actor=actor, reason=reason, **changes)
    if as_json:
        print_json(plain(after))
    else:
        echo(f"queue {name}: {', '.join(key.replace('_', ' ') for key in changes)} set")


def _there(app: App) -> set[str]:
    """Return the queues that have jobs, settings, a task or a worker, and the default one."""
    used = {queue for task in app.tasks.values() for queue in task.queues}
    served = {queue for worker in app.workers.list() for queue in worker.queues}
    return {"default", *used, *served, *(view.name for view in app.queues.list())}


def _number_of(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidInput(f"{text!r} is not a whole number, nor 'default'") from None


def _policy(text: str) -> RetryPolicy:
    try:
        return msgspec.json.decode(text, type=RetryPolicy)
    except msgspec.DecodeError as wrong:
        raise InvalidInput(f"invalid retry policy: {wrong}{allowed_values(RetryPolicy, str(wrong))}") from wrong


def _number(queue: QueueBrief, label: str) -> object:
    count = queue.jobs.get(label, 0)
    return f"~{count:,}" if label in queue.estimated else count


def _age(queue: QueueBrief) -> str:
    return "" if queue.oldest_due is None else f"{queue.oldest_due:,.0f} s"
