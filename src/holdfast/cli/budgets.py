"""`holdfast budgets`: limits on spending, and the amounts spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import click

from ..client.budgets import Budgets
from ..model.budgets import Budget, JobSpent
from .command import (
    EXIT_CODES,
    Command,
    actor_option,
    echo,
    for_people,
    json_option,
    reason_option,
    target_options,
    tenant_option,
)
from .locate import find_app
from .output import plain, print_json, print_table, say


class Limit(click.ParamType[Any]):
    """A dimension with a number, such as tokens=1000000 or usd=49.50; `none` is unlimited."""

    name = "dimension=number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        dimension, _, number = value.rpartition("=")
        try:
            return dimension, None if number == "none" else Decimal(number)
        except InvalidOperation:
            self.fail(f"{value!r} is not of the form dimension=number, such as tokens=1000000", param, ctx)


@click.group(epilog=EXIT_CODES)
def budgets() -> None:
    """List, set, raise and reset budgets."""


@budgets.command("list", cls=Command)
@tenant_option
@json_option
@target_options
def list_(tenant: str | None, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """List the budgets with their spending."""
    found = _budgets(app_name, store, tenant).list(limit=1_000)
    if as_json:
        print_json({"budgets": [budget_data(budget) for budget in found]})
        return
    rows = [row for budget in found for row in _rows(budget)]
    names = ("budget", "dimension", "spent#", "reserved#", "limit#", "soft#", "blocked#", "resets", "set by")
    print_table(names, rows, empty="no budgets")


@budgets.command(cls=Command)
@click.argument("name")
@tenant_option
@json_option
@target_options
def show(name: str, tenant: str | None, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Show a budget, with its lifetime spending."""
    budget = _budgets(app_name, store, tenant).get(name)
    if as_json:
        print_json(budget_data(budget))
        return
    echo(f"{budget.name}: {_when(budget)}" + (f", part of {budget.within}" if budget.within else ""))
    rows = [
        (
            line.dimension,
            f"{line.spent:f}",
            f"{line.reserved:f}",
            _text(line.limit),
            _text(line.left),
            f"{line.lifetime:f}",
            line.soft_breaches,
            line.hard_breaches,
        )
        for line in budget.dimensions
    ]
    names = ("dimension", "spent#", "reserved#", "limit#", "left#", "lifetime#", "soft breaches#", "breaches#")
    print_table(names, rows, empty="no dimensions")
    if budget.blocked:
        echo(f"{budget.blocked} jobs waiting")


@budgets.command("set", cls=Command)
@click.argument("name")
@click.argument("limits", type=Limit(), nargs=-1, metavar="[DIMENSION=NUMBER]...")
@click.option("--soft", type=Limit(), multiple=True, metavar="DIMENSION=NUMBER", help="Warn above this.")
@click.option("--every", metavar="TEXT", help="Reset interval: for example 1d, a cron expression, or never.")
@click.option("--zone", metavar="NAME", help="Time zone of the cron expression. [default: UTC]")
@click.option("--within", metavar="NAME", help='Parent budget; "" for none.')
@tenant_option
@actor_option
@reason_option
@json_option
@target_options
def set_(
    name: str, tenant: str | None, app_name: str | None, store: str | None, as_json: bool, debug: bool, **what: Any
) -> None:
    """Create or change a budget. Options left out are unchanged."""
    where = _budgets(app_name, store, tenant)
    changed = where.set(name, dict(what.pop("limits")), soft=dict(what.pop("soft")), **what)
    say({"changed": changed, **budget_data(where.get(name))}, f"budget {name} {_changed(changed)}", as_json)


@budgets.command("raise", cls=Command)
@click.argument("name")
@click.argument("limits", type=Limit(), nargs=-1, required=True, metavar="DIMENSION=NUMBER...")
@tenant_option
@actor_option
@reason_option
@json_option
@target_options
def raise_(
    name: str, limits: Sequence[Any], tenant: str | None, app_name: str | None, store: str | None, as_json: bool,
    debug: bool, **who: str,
) -> None:  # fmt: skip
    """Raise limits, and release the waiting jobs that now fit."""
    budget = _budgets(app_name, store, tenant).raise_(name, dict(limits), **who)
    shown = ", ".join(f"{_text(line.limit)} {line.dimension}" for line in budget.dimensions)
    say(budget_data(budget), f"budget {name}: {shown}", as_json)


@budgets.command(cls=Command)
@click.argument("name")
@tenant_option
@actor_option
@reason_option
@json_option
@target_options
def reset(
    name: str, tenant: str | None, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str
) -> None:
    """Reset a budget, and release the waiting jobs that now fit. Its lifetime spending and schedule are unchanged."""
    done = _budgets(app_name, store, tenant).reset(name, **who)
    say({"reset": done}, f"budget {name} was reset" if done else "nothing was spent", as_json)


@budgets.command(cls=Command)
@click.argument("name")
@tenant_option
@actor_option
@reason_option
@json_option
@target_options
def delete(
    name: str, tenant: str | None, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str
) -> None:
    """Delete a budget. Jobs that use it fail from then on."""
    removed = _budgets(app_name, store, tenant).delete(name, **who)
    say({"removed": removed}, "removed" if removed else "there was no such budget", as_json)


@budgets.command(cls=Command)
@click.argument("job", metavar="JOB")
@json_option
@target_options
def spent(job: str, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Show a job's spending, by budget."""
    _tell_spent(job, find_app(app_name, store).budgets.spent_by(job), "spent", as_json)


@budgets.command("give-back", cls=Command)
@click.argument("job", metavar="JOB")
@actor_option
@reason_option
@json_option
@target_options
def give_back(job: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str) -> None:
    """Refund a finished job's spending to its budgets. Repeating it refunds nothing more."""
    _tell_spent(job, find_app(app_name, store).budgets.give_back(job, **who), "refunded", as_json)


def _tell_spent(job: str, spent: Mapping[str, Mapping[str, Decimal]], what: str, as_json: bool) -> None:
    if as_json:
        print_json(plain(JobSpent(job, spent)))
        return
    rows = [(budget, name, f"{n:f}") for budget, amounts in spent.items() for name, n in amounts.items()]
    print_table(("budget", "dimension", f"{what}#"), rows, empty=f"nothing was {what}")


def budget_data(budget: Budget) -> dict[str, Any]:
    """Return a budget as JSON; amounts as text, because they are exact."""
    return plain(budget)


def _rows(budget: Budget) -> list[tuple[Any, ...]]:
    name = f"{budget.tenant}/{budget.name}" if budget.tenant else budget.name
    return [
        (
            name,
            line.dimension,
            f"{line.spent:f}",
            f"{line.reserved:f}",
            _text(line.limit),
            "" if line.soft is None else f"{line.soft:f}",
            budget.blocked,
            _when(budget),
            budget.origin,
        )
        for line in budget.dimensions
    ]


def _when(budget: Budget) -> str:
    if budget.cron is not None:
        return f"at {budget.cron} {budget.zone}"
    return "never resets" if budget.every is None else f"every {for_people(budget.every)}"


def _budgets(app_name: str | None, store: str | None, tenant: str | None) -> Budgets:
    found = find_app(app_name, store).budgets
    return found if tenant is None else found.of(tenant)


def _text(amount: Decimal | None) -> str:
    return "none" if amount is None else f"{amount:f}"


def _changed(changed: bool) -> str:
    return "is set" if changed else "was already set"
