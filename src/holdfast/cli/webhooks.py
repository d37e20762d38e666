"""`holdfast webhooks`: who is told of what happens, and what became of telling them."""

from __future__ import annotations

from typing import Any

import click

from ..model.webhook import Delivery, Endpoint
from ..shapes.webhooks import of_delivery, of_endpoint, of_new_endpoint
from .command import EXIT_CODES, Command, json_option, target_options
from .locate import find_app
from .operator import Duration, actor_option, reason_option, tenant_option, view_option
from .output import instant, plain, print_json, print_table, say


@click.group(epilog=EXIT_CODES)
def webhooks() -> None:
    """See and change the endpoints of webhooks; see, test and replay deliveries."""


@webhooks.command(cls=Command)
@click.argument("url")
@click.option(
    "--event", "events", multiple=True, metavar="KIND", help="Such as job.failed or flow; all of jobs without."
)
@click.option("--tag", "tags", multiple=True, help="Only of jobs with this tag, or another one given.")
@click.option("--concurrency", type=int, default=4, show_default=True, help="Deliveries under way at once.")
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
    """Tell a URL of what happens from now on; prints the secret that signs, once."""
    endpoint = find_app(app_name, store).webhooks.add(url, events=events or None, tags=tags or None, **what)
    _say_secret(endpoint, f"endpoint {endpoint.id} is told of what happens; its secret:", as_json)


@webhooks.command("list", cls=Command)
@view_option
@json_option
@target_options
def list_(tenant: str | None, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Every endpoint."""
    app = find_app(app_name, store)
    found = (app if tenant is None else app.scoped(tenant)).webhooks.list(limit=1_000)
    if as_json:
        print_json({"endpoints": [endpoint_data(one) for one in found]})
        return
    rows = [
        (one.id, one.tenant, one.url, _hears(one), f"{one.state}: {one.reason}" if one.reason else one.state)
        for one in found
    ]
    print_table(("id", "tenant", "url", "hears of", "state…"), rows, empty="no endpoints")


@webhooks.command(cls=Command)
@click.argument("endpoint")
@click.option("--overlap", type=Duration(), default="1d", show_default=True, help="For so long both secrets sign.")
@actor_option
@reason_option
@json_option
@target_options
def rotate(endpoint: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **what: Any) -> None:
    """Sign with a new secret; prints it, once."""
    found = find_app(app_name, store).webhooks.rotate(endpoint, **what)
    _say_secret(found, f"endpoint {endpoint} has a new secret:", as_json)


@webhooks.command(cls=Command)
@click.argument("endpoint")
@actor_option
@reason_option
@json_option
@target_options
def test(endpoint: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str) -> None:
    """Send a test message; `webhooks log` shows what came of it."""
    sent = find_app(app_name, store).webhooks.test(endpoint, **who)
    say(delivery_data(sent), f"delivery {sent.id} is on its way, as message {sent.message}", as_json)


@webhooks.command(cls=Command)
@click.argument("endpoint")
@click.option("--before", metavar="DELIVERY", help="Those before this one.")
@click.option("--limit", type=int, default=50, show_default=True, help="How many at most.")
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
    """Deliveries to an endpoint, the newest first."""
    found = find_app(app_name, store).webhooks.log(endpoint, before=before, limit=limit)
    if as_json:
        print_json({"deliveries": [delivery_data(one) for one in found]})
        return
    rows = [
        (
            one.id,
            one.kind,
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
def replay(delivery: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str) -> None:
    """Send a message again under its own id, or now if it waits."""
    replayed = find_app(app_name, store).webhooks.replay(delivery, **who)
    say({"replayed": replayed}, "replayed" if replayed else "it is being sent", as_json)


@webhooks.command(cls=Command)
@click.argument("endpoint")
@click.option("--limit", type=int, default=1_000, show_default=True, help="How many at most.")
@actor_option
@reason_option
@json_option
@target_options
def recover(endpoint: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **what: Any) -> None:
    """Send again what was given up, the oldest first."""
    sent = find_app(app_name, store).webhooks.recover(endpoint, **what)
    say({"deliveries": sent}, f"{len(sent)} deliveries are on their way again", as_json)


@webhooks.command(cls=Command)
@click.argument("endpoint")
@actor_option
@reason_option
@json_option
@target_options
def disable(endpoint: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str) -> None:
    """Tell an endpoint nothing any more; what waits for it fails."""
    changed = find_app(app_name, store).webhooks.disable(endpoint, **who)
    say({"changed": changed}, "disabled" if changed else "it was disabled already", as_json)


@webhooks.command(cls=Command)
@click.argument("endpoint")
@actor_option
@reason_option
@json_option
@target_options
def enable(endpoint: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str) -> None:
    """Tell an endpoint again of what happens from now on."""
    changed = find_app(app_name, store).webhooks.enable(endpoint, **who)
    say({"changed": changed}, "enabled" if changed else "it was enabled already", as_json)


@webhooks.command(cls=Command)
@click.argument("endpoint")
@actor_option
@reason_option
@json_option
@target_options
def delete(endpoint: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str) -> None:
    """Forget an endpoint and cancel what waits for it."""
    find_app(app_name, store).webhooks.delete(endpoint, **who)
    say({"removed": True}, "removed", as_json)


def endpoint_data(endpoint: Endpoint) -> dict[str, Any]:
    """An endpoint for programs, with its secret only where that is new."""
    return plain(of_new_endpoint(endpoint) if endpoint.secret else of_endpoint(endpoint))


def delivery_data(delivery: Delivery) -> dict[str, Any]:
    """A delivery for programs."""
    return plain(of_delivery(delivery))


def _hears(endpoint: Endpoint) -> str:
    kinds = "jobs that name it" if endpoint.called else ", ".join(endpoint.events or ("job",))
    return f"{kinds}, tagged {' or '.join(endpoint.tags)}" if endpoint.tags else kinds


def _say_secret(endpoint: Endpoint, text: str, as_json: bool) -> None:
    say(endpoint_data(endpoint), f"{text}\n{endpoint.secret}", as_json)
