"""`holdfast quotas`: so many within a window, so many at once."""

from __future__ import annotations

from typing import Any

import click

from ..client.quotas import Quotas
from ..model.budget import Quota
from ..shapes.budgets import of_quota
from .command import EXIT_CODES, Command, json_option, target_options
from .locate import find_app
from .operator import Duration, actor_option, for_people, reason_option, tenant_option
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
            self.fail(f"{value!r} is not a whole number; write such as 100, or none", param, ctx)


@click.group(epilog=EXIT_CODES)
def quotas() -> None:
    """See quotas, set and delete them."""


@quotas.command("list", cls=Command)
@tenant_option
@json_option
@target_options
def list_(tenant: str | None, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Every quota and how it stands."""
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
    names = ("quota", "allows", "used#", "at once#", "active#", "blocked#", "set by")
    print_table(names, rows, empty="no quotas")


@quotas.command(cls=Command)
@click.argument("name")
@tenant_option
@json_option
@target_options
def show(name: str, tenant: str | None, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """One quota and how it stands."""
    quota = _quotas(app_name, store, tenant).get(name)
    text = f"{quota.name}: {_rate(quota)}, {quota.used} used; {_most(quota)} at once, {quota.active} active"
    say(quota_data(quota), f"{text}; {quota.admitted} admitted and {quota.refused} refused so far", as_json)


@quotas.command("set", cls=Command)
@click.argument("name")
@click.option("--limit", type=_Count(), metavar="N", help="So many within the window; none takes it away.")
@click.option("--window", type=Duration(), help="Seconds, or such as 1h.")
@click.option("--concurrency", type=_Count(), metavar="N", help="So many at once; none takes it away.")
@tenant_option
@actor_option
@reason_option
@json_option
@target_options
def set_(
    name: str, tenant: str | None, app_name: str | None, store: str | None, as_json: bool, debug: bool, **what: Any
) -> None:
    """Make or change a quota. What is left out stays."""
    where = _quotas(app_name, store, tenant)
    given: dict[str, Any] = {
        key: None if value == "none" else value for key, value in what.items() if value is not None
    }
    changed = where.set(name, **given)
    quota = where.get(name)
    text = f"quota {name}: {_rate(quota)}, {_most(quota)} at once" if changed else f"quota {name} was so already"
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
    """Forget a quota. Jobs that name it fail from then on."""
    removed = _quotas(app_name, store, tenant).delete(name, **who)
    say({"removed": removed}, "removed" if removed else "there was no such quota", as_json)


def quota_data(quota: Quota) -> dict[str, Any]:
    """A quota for programs; the window in seconds."""
    return plain(of_quota(quota))


def _quotas(app_name: str | None, store: str | None, tenant: str | None) -> Quotas:
    found = find_app(app_name, store).quotas
    return found if tenant is None else found.of(tenant)


def _rate(quota: Quota) -> str:
    return "any number" if quota.limit is None else f"{quota.limit} in {for_people(quota.window)}"


def _most(quota: Quota) -> str:
    return "any number" if quota.concurrency is None else str(quota.concurrency)
