"""`holdfast limits`: cluster-wide concurrency limits and rates."""

from __future__ import annotations

from typing import Any

import click

from ..model.limits import LimitsView
from .breakers import describe_state
from .command import EXIT_CODES, Command, actor_option, echo, json_option, reason_option, target_options
from .locate import find_app
from .output import plain, print_json, print_table, say


@click.group(epilog=EXIT_CODES)
def limits() -> None:
    """List and set cluster-wide concurrency limits and rates."""


@limits.command("list", cls=Command)
@json_option
@target_options
def list_(app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """List the limits with their use."""
    view = find_app(app_name, store).limits.show()
    if as_json:
        print_json(plain(view))
        return
    print_table(("limit", "in use#", "most#", "refill#", "set by"), _rows(view), empty="no limits")


@limits.command("set", cls=Command)
@click.argument("n", type=int)
@click.option("--task", metavar="NAME", help="Limit the jobs of this task.")
@click.option("--queue", metavar="NAME", help="Limit the jobs of this queue.")
@actor_option
@reason_option
@json_option
@target_options
def set_(n: int, app_name: str | None, store: str | None, as_json: bool, debug: bool, **what: Any) -> None:
    """Limit the concurrency of a task or queue to N."""
    app = find_app(app_name, store)
    app.limits.set_concurrency(n, **what)
    if app.tasks and what["task"] is not None and what["task"] not in app.tasks:
        echo(f"warning: the app has no task {what['task']!r}; it has {', '.join(sorted(app.tasks))}", err=True)
    say({"most": n}, f"concurrency limit: {n}", as_json)


@limits.command(cls=Command)
@click.option("--task", metavar="NAME", help="Limit of this task.")
@click.option("--queue", metavar="NAME", help="Limit of this queue.")
@actor_option
@reason_option
@json_option
@target_options
def clear(app_name: str | None, store: str | None, as_json: bool, debug: bool, **what: Any) -> None:
    """Remove the concurrency limit of a task or queue."""
    removed = find_app(app_name, store).limits.clear_concurrency(**what)
    say({"removed": removed}, "removed" if removed else "there was no such limit", as_json)


@limits.command(cls=Command)
@click.argument("scope")
@click.option("--capacity", type=float, required=True, help="Burst: the capacity of the bucket.")
@click.option("--per-second", type=float, required=True, help="Tokens added per second.")
@actor_option
@reason_option
@json_option
@target_options
def rate(
    scope: str,
    capacity: float,
    per_second: float,
    app_name: str | None,
    store: str | None,
    as_json: bool,
    debug: bool,
    **who: str,
) -> None:
    """Create or change the token bucket of a scope."""
    find_app(app_name, store).limits.set_rate(scope, capacity=capacity, per_second=per_second, **who)
    facts = {"scope": scope, "capacity": capacity, "per_second": per_second}
    say(facts, f"rate {scope}: {per_second:g} per second, burst of {capacity:g}", as_json)


@limits.command("clear-rate", cls=Command)
@click.argument("scope")
@actor_option
@reason_option
@json_option
@target_options
def clear_rate(scope: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str) -> None:
    """Remove the token bucket of a scope. Jobs that use it wait until it is set again."""
    removed = find_app(app_name, store).limits.clear_rate(scope, **who)
    say({"removed": removed}, "removed" if removed else "there was no such rate", as_json)


@limits.command(cls=Command)
@click.argument("queue")
@click.argument("n", type=int, required=False)
@actor_option
@reason_option
@json_option
@target_options
def total(
    queue: str, n: int | None, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str
) -> None:
    """Split a queue's concurrency of N across the live workers; without N, remove it."""
    find_app(app_name, store).limits.set_total(queue, n, **who)
    text = f"queue {queue}: no total" if n is None else f"queue {queue}: concurrency of {n}, split across workers"
    say({"queue": queue, "total": n}, text, as_json)


@limits.command(cls=Command)
@click.argument("scope")
@actor_option
@reason_option
@json_option
@target_options
def drain(scope: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str) -> None:
    """Empty the token bucket of a scope, after the service has rejected requests."""
    find_app(app_name, store).limits.drain(scope, **who)
    say({"scope": scope}, f"rate {scope} is empty", as_json)


def _rows(view: LimitsView) -> list[tuple[str, ...]]:
    """Return the columns: limit, in use, maximum, refill, set by."""
    return [
        *((lane.key, f"{lane.running}", f"{lane.capacity}", "", lane.origin) for lane in view.lanes),
        *(
            (
                f"rate:{one.scope}",
                f"{one.tokens:.1f} left" + (f", {one.keys:,} keys" if one.keys else ""),
                f"{one.capacity:g}",
                f"{one.refill:g}/s",
                one.origin,
            )
            for one in view.rates
        ),
        *((f"total:{queue}", "", f"{total}", "", "operator") for queue, total in view.totals.items()),
        *(
            (f"breaker:{one.scope}", f"{one.failures} failed", f"{one.threshold}", describe_state(one), one.origin)
            for one in view.breakers
        ),
    ]
