"""`holdfast breakers`: circuit breakers."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from ..model.limits import Breaker
from .command import EXIT_CODES, Command, Duration, actor_option, for_people, json_option, reason_option, target_options
from .locate import find_app
from .output import plain, print_json, print_table, say


@click.group(epilog=EXIT_CODES)
def breakers() -> None:
    """List, set, trip and reset circuit breakers."""


@breakers.command("list", cls=Command)
@json_option
@target_options
def list_(app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """List the circuit breakers."""
    found = find_app(app_name, store).breakers.list()
    if as_json:
        print_json({"breakers": [plain(breaker) for breaker in found]})
        return
    rows = [
        (
            one.scope,
            describe_state(one),
            f"{one.failures} of {one.threshold}",
            for_people(one.open_for),
            one.openings,
            one.origin,
        )
        for one in found
    ]
    print_table(("breaker", "state", "failures#", "stays open for#", "opened#", "set by"), rows, empty="no breakers")


@breakers.command("set", cls=Command)
@click.argument("scope")
@click.option("--failures", type=int, default=5, show_default=True, help="Consecutive failures that open it.")
@click.option("--open-for", type=Duration(), default="30", show_default=True, help="Seconds, or for example 5m.")
@actor_option
@reason_option
@json_option
@target_options
def set_(
    scope: str, failures: int, open_for: float, app_name: str | None, store: str | None, as_json: bool, debug: bool,
    **who: str,
) -> None:  # fmt: skip
    """Create or change a circuit breaker."""
    find_app(app_name, store).breakers.set(scope, failures=failures, open_for=open_for, **who)
    facts = {"scope": scope, "failures": failures, "open_for": open_for}
    say(facts, f"breaker {scope}: opens for {for_people(open_for)} after {failures} consecutive failures", as_json)


@breakers.command(cls=Command)
@click.argument("scope")
@actor_option
@reason_option
@json_option
@target_options
def clear(scope: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str) -> None:
    """Remove a circuit breaker. Jobs that use it wait until it is set again."""
    removed = find_app(app_name, store).breakers.clear(scope, **who)
    say({"removed": removed}, "removed" if removed else "there was no such breaker", as_json)


@breakers.command(cls=Command)
@click.argument("scope")
@click.option("--for", "open_for", type=Duration(), help="For example 5m. [default: its usual time]")
@actor_option
@reason_option
@json_option
@target_options
def trip(
    scope: str, open_for: float | None, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str
) -> None:
    """Open a circuit breaker by hand: jobs that use it do not run for a while."""
    breaker = find_app(app_name, store).breakers.trip(scope, open_for, **who)
    say(plain(breaker), f"breaker {scope} is {describe_state(breaker)}", as_json)


@breakers.command(cls=Command)
@click.argument("scope")
@actor_option
@reason_option
@json_option
@target_options
def reset(scope: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str) -> None:
    """Close a circuit breaker by hand, and release the jobs that wait for it."""
    breaker = find_app(app_name, store).breakers.reset(scope, **who)
    say(plain(breaker), f"breaker {scope} is {describe_state(breaker)}", as_json)


def describe_state(breaker: Breaker) -> str:
    """Describe its state."""
    if breaker.state == "open" and breaker.open_until is not None:
        return f"open for {(breaker.open_until - datetime.now(UTC)).total_seconds():.0f} s"
    if breaker.state == "half_open":
        return "half open, a trial job is running" if breaker.trial else "half open, the next job is the trial"
    return breaker.state
