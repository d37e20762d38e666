"""`holdfast quotas`: limits per time window, and concurrency."""

from __future__ import annotations

from typing import Any

import click

from ..client.quotas import Quotas
from ..model.budgets import Quota
from .command import (
    EXIT_CODES,
    Command,
    Duration,
    actor_option,
    for_people,
    json_option,
    reason_option,
    target_options,
    tenant_option,
)
from .locate import find_app
from .output import plain, print_json, print_table, say


class _Count(click.ParamType[Any]):
    """A whole number, or none."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "none":
            return value
        try:
            return int(value)
        except ValueError:
            self.fail(f"{value!r} is not a whole number; write for example 100, or none", param, ctx)


@click.group(epilog=EXIT_CODES)
def quotas() -> None:
    """List, set and delete quotas."""


@quotas.command("list", cls=Command)
@tenant_option
@json_option
@target_options
def list_(tenant: str | None, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """List the quotas with their use."""
    found = _quotas(app_name, store, tenant).list(limit=1_000)
    if as_json:
        print_json({"quotas": [quota_data(quota) for quota in found]})
        return
    rows = [
        (
            f"{one.tenant}/{one.name}" if one.tenant else one.name,
            _rate(one),
            one.used,
            _most(one),
            one.active,
            one.blocked,
            one.origin,
        )
        for one in found
    ]
    names = ("quota", "allows", "used#", "concurrency#", "active#", "blocked#", "set by")
    print_table(names, rows, empty="no quotas")


@quotas.command(cls=Command)
@click.argument("name")
@tenant_option
@json_option
@target_options
def show(name: str, tenant: str | None, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Show a quota with its use."""
    quota = _quotas(app_name, store, tenant).get(name)
    text = f"{quota.name}: {_rate(quota)}, {quota.used} used; concurrency {_most(quota)}, {quota.active} active"
    say(quota_data(quota), f"{text}; {quota.admitted} admitted and {quota.refused} refused so far", as_json)


@quotas.command("set", cls=Command)
@click.argument("name")
@click.option("--limit", type=_Count(), metavar="N", help="Maximum number per window; none removes it.")
@click.option("--window", type=Duration(), help="Seconds, or for example 1h.")
@click.option("--concurrency", type=_Count(), metavar="N", help="Concurrency; none removes it.")
@tenant_option
@actor_option
@reason_option
@json_option
@target_options
def set_(
    name: str, tenant: str | None, app_name: str | None, store: str | None, as_json: bool, debug: bool, **what: Any
) -> None:
    """Create or change a quota. Options left out are unchanged."""
    where = _quotas(app_name, store, tenant)
    given: dict[str, Any] = {
        key: None if value == "none" else value for key, value in what.items() if value is not None
    }
    changed = where.set(name, **given)
    quota = where.get(name)
    text = f"quota {name}: {_rate(quota)}, concurrency {_most(quota)}" if changed else f"quota {name} was already set"
    say({"changed": changed, **quota_data(quota)}, text, as_json)


@quotas.command(cls=Command)
@click.argument("name")
@tenant_option
@actor_option
@reason_option
@json_option
@target_options
def delete(
    name: str, tenant: str | None, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str
) -> None:
    """Delete a quota. Jobs that use it fail from then on."""
    removed = _quotas(app_name, store, tenant).delete(name, **who)
    say({"removed": removed}, "removed" if removed else "there was no such quota", as_json)


def quota_data(quota: Quota) -> dict[str, Any]:
    """Return a quota as JSON; the window in seconds."""
    return plain(quota)


def _quotas(app_name: str | None, store: str | None, tenant: str | None) -> Quotas:
    found = find_app(app_name, store).quotas
    return found if tenant is None else found.of(tenant)


def _rate(quota: Quota) -> str:
    return "unlimited" if quota.limit is None else f"{quota.limit} in {for_people(quota.window)}"


def _most(quota: Quota) -> str:
    return "unlimited" if quota.concurrency is None else str(quota.concurrency)
