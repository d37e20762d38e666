"""`holdfast webhooks`: endpoints and deliveries."""

from __future__ import annotations

from typing import Any

import click

from ..model.webhooks import Endpoint, NewEndpoint
from .command import (
    EXIT_CODES,
    Command,
    Duration,
    actor_option,
    json_option,
    reason_option,
    target_options,
    tenant_option,
    view_option,
)
from .locate import find_app
from .output import instant, plain, print_json, print_table, say


@click.group(epilog=EXIT_CODES)
def webhooks() -> None:
    """Manage webhook endpoints; list, test and retry deliveries."""


@webhooks.command(cls=Command)
@click.argument("url")
@click.option(
    "--event",
    "events",
    multiple=True,
    metavar="KIND",
    help="Event kind or prefix, such as job.failed or flow. [default: all job events]",
)
@click.option("--tag", "tags", multiple=True, help="Only jobs with one of these tags; repeatable.")
@click.option("--concurrency", type=int, default=4, show_default=True, help="Concurrent deliveries.")
@tenant_option
@actor_option
@reason_option
@json_option
@target_options
def add(
    url: str,
    events: tuple[str, ...],
    tags: tuple[str, ...],
    app_name: str | None,
    store: str | None,
    as_json: bool,
    debug: bool,
    **what: Any,
) -> None:
    """Add an endpoint for new events; prints its signing secret, once."""
    endpoint = find_app(app_name, store).webhooks.add(url, events=events or None, tags=tags or None, **what)
    _say_secret(endpoint, f"endpoint {endpoint.id} added; its secret:", as_json)


@webhooks.command("list", cls=Command)
@view_option
@json_option
@target_options
def list_(tenant: str | None, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """List the endpoints."""
    app = find_app(app_name, store)
    found = (app if tenant is None else app.scoped(tenant)).webhooks.list(limit=1_000)
    if as_json:
        print_json({"endpoints": [plain(one) for one in found]})
        return
    rows = [
        (one.id, one.tenant, one.url, _events(one), f"{one.state}: {one.reason}" if one.reason else one.state)
        for one in found
    ]
    print_table(("id", "tenant", "url", "events", "state…"), rows, empty="no endpoints")


@webhooks.command(cls=Command)
@click.argument("endpoint")
@click.option(
    "--overlap", type=Duration(), default="1d", show_default=True, help="Time for which the old secret stays valid."
)
@actor_option
@reason_option
@json_option
@target_options
def rotate(endpoint: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **what: Any) -> None:
    """Rotate the signing secret; prints the new one, once."""
    found = find_app(app_name, store).webhooks.rotate(endpoint, **what)
    _say_secret(found, f"endpoint {endpoint} has a new secret:", as_json)


@webhooks.command(cls=Command)
@click.argument("endpoint")
@actor_option
@reason_option
@json_option
@target_options
def test(endpoint: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str) -> None:
    """Send a test message; `webhooks log` shows the result."""
    sent = find_app(app_name, store).webhooks.test(endpoint, **who)
    say(plain(sent), f"delivery {sent.id} sent as message {sent.message}", as_json)


@webhooks.command(cls=Command)
@click.argument("endpoint")
@click.option("--before", metavar="DELIVERY", help="Only deliveries before this one.")
@click.option("--limit", type=int, default=50, show_default=True, help="Maximum number.")
@json_option
@target_options
def log(
    endpoint: str,
    before: str | None,
    limit: int,
    app_name: str | None,
    store: str | None,
    as_json: bool,
    debug: bool,
) -> None:
    """List the deliveries to an endpoint, newest first."""
    found = find_app(app_name, store).webhooks.log(endpoint, before=before, limit=limit)
    if as_json:
        print_json({"deliveries": [plain(one) for one in found]})
        return
    rows = [
        (
            one.id,
            one.event,
            one.job,
            instant(one.at, exact=False),
            one.state,
            one.attempts,
            instant(one.next_at, exact=False),
            one.status,
            one.ms,
            one.error,
        )
        for one in found
    ]
    columns = ("id", "event", "job", "at", "state", "tries#", "next", "status#", "ms#", "said…")
    print_table(columns, rows, empty="no deliveries")


@webhooks.command(cls=Command)
@click.argument("delivery")
@actor_option
@reason_option
@json_option
@target_options
def retry(delivery: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str) -> None:
    """Send a message again with its original id, or now if it is scheduled."""
    retried = find_app(app_name, store).webhooks.retry(delivery, **who)
    say({"retried": retried}, "retried" if retried else "already being sent", as_json)


@webhooks.command(cls=Command)
@click.argument("endpoint")
@click.option("--limit", type=int, default=1_000, show_default=True, help="Maximum number.")
@actor_option
@reason_option
@json_option
@target_options
def recover(endpoint: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **what: Any) -> None:
    """Retry failed deliveries, oldest first."""
    sent = find_app(app_name, store).webhooks.recover(endpoint, **what)
    say({"deliveries": sent}, f"{len(sent)} deliveries are being retried", as_json)


@webhooks.command(cls=Command)
@click.argument("endpoint")
@actor_option
@reason_option
@json_option
@target_options
def disable(endpoint: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str) -> None:
    """Disable an endpoint; its pending deliveries fail."""
    changed = find_app(app_name, store).webhooks.disable(endpoint, **who)
    say({"changed": changed}, "disabled" if changed else "the endpoint was already disabled", as_json)


@webhooks.command(cls=Command)
@click.argument("endpoint")
@actor_option
@reason_option
@json_option
@target_options
def enable(endpoint: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str) -> None:
    """Enable an endpoint, for new events."""
    changed = find_app(app_name, store).webhooks.enable(endpoint, **who)
    say({"changed": changed}, "enabled" if changed else "the endpoint was already enabled", as_json)


@webhooks.command(cls=Command)
@click.argument("endpoint")
@actor_option
@reason_option
@json_option
@target_options
def delete(endpoint: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str) -> None:
    """Delete an endpoint and cancel its pending deliveries."""
    find_app(app_name, store).webhooks.delete(endpoint, **who)
    say({"removed": True}, "removed", as_json)


def _events(endpoint: Endpoint) -> str:
    kinds = "jobs that set this webhook" if endpoint.called else ", ".join(endpoint.events or ("job",))
    return f"{kinds}, tagged {' or '.join(endpoint.tags)}" if endpoint.tags else kinds


def _say_secret(endpoint: NewEndpoint, text: str, as_json: bool) -> None:
    say(plain(endpoint), f"{text}\n{endpoint.secret}", as_json)
