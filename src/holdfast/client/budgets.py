"""Budgets: `app.budgets`. Each method has an async version, actions are audited, a repeated call changes nothing."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

from ..durable.budgets import tell
from ..errors import InvalidInput
from ..model.budgets import Budget, Place, Spent, place_of
from ..names import check_duration, check_name
from ..rules.budgets import Amount, Amounts, check_amount, check_amounts, exact
from ..rules.cron import parse_cron
from ..rules.durations import seconds_of
from ..storage.ops.audit import audit
from ..storage.ops.budgets import budgets, spending
from ..storage.ops.budgets.accounts import key_of
from ..storage.ops.budgets.budgets import Terms
from ..storage.port import Op, Store, Tx
from ..tasks.job import Job
from ..tasks.options import Seconds
from .audit import removal
from .calls import composed, reads, writes
from .jobs import id_of
from .lines import Line
from .scope import EVERYTHING, Scope

Limits: TypeAlias = "Mapping[str, Amount | None]"
NEVER: Final = "never"


class Budgets:
    """Read budgets, set and raise their limits, reset them, spend from outside of a task."""

    def __init__(self, store: Callable[[], Store], scope: Scope = EVERYTHING, *, shares: bool = False) -> None:
        self._store = store
        self._scope = scope
        self._shares = shares

    def of(self, tenant: str) -> Budgets:
        """Return the budgets of one tenant, in which its jobs look up names first."""
        scope = Scope(self._scope.of(check_name("tenant", tenant)))
        return Budgets(self._store, scope, shares=self._shares or self._scope.tenant is None)

    @reads
    def list(self, *, after: Budget | Place | None = None, limit: int = 500) -> Op[builtins.list[Budget]]:
        """Return every budget and its state, by tenant and name. `after` is the last of the page before."""
        tenant = self._scope.tenant
        if not 1 <= limit <= 1_000:
            raise InvalidInput(f"limit is {limit}; use 1 to 1,000")
        start = "" if after is None else key_of(*place_of(after))
        return Op(lambda tx: budgets.list_budgets(tx, tenant, after=start, limit=limit))

    alist = list.awaiting

    @reads
    def get(self, name: str) -> Op[Budget]:
        """Return one budget and its state; BudgetNotFound if there is none."""
        return Op(lambda tx: budgets.get(tx, self._scope.home, name))

    aget = get.awaiting

    @writes
    def set(
        self,
        name: str,
        limits: Limits | None = None,
        *,
        soft: Limits | None = None,
        every: Seconds | str | None = None,
        zone: str | None = None,
        within: str | None = None,
        actor: str = "app",
        reason: str = "",
    ) -> Op[bool]:
        """Create or change a budget; False if nothing changed. Omitted settings stay as they are.

        `limits` and `soft` are by dimension, and None removes one. `every` is seconds, such as "1d", a cron expression
        in `zone`, or "never". `within` is the budget that it is a part of, "" of none.
        """
        terms = _terms(limits, soft, every, zone, within)
        tenant, budget, shares = self._scope.home, check_name("the budget's name", name), self._shares

        async def run(tx: Tx) -> bool:
            changed = await budgets.ensure(tx, tenant, budget, terms, origin="operator", shares=shares)
            if changed:
                after = _shown(await budgets.get(tx, tenant, budget))
                said = {"action": "budget.set", "target": budget, "reason": reason}
                await audit(tx, actor=actor, **said, after=after, tenant=tenant)
            return changed

        return Op(run)

    aset = set.awaiting

    @writes
    def raise_(self, name: str, limits: Amounts, *, actor: str = "app", reason: str = "") -> Op[Budget]:
        """Set higher limits, and release the jobs that fit; return the budget after that."""
        tenant, wanted = self._scope.home, check_amounts("a raise", limits)

        async def run(tx: Tx) -> Budget:
            before = await budgets.get(tx, tenant, name)
            budget, changed = await budgets.raise_limits(tx, tenant, name, wanted)
            if changed:
                await audit(
                    tx, actor=actor, action="budget.raise", target=name, reason=reason,
                    before=_shown(before), after=_shown(budget), tenant=tenant,
                )  # fmt: skip
            return budget

        return Op(run)

    araise = raise_.awaiting

    @writes
    def reset(self, name: str, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Reset now, and release the jobs that fit; False if nothing was spent. Its schedule stays."""
        tenant = self._scope.home

        async def run(tx: Tx) -> bool:
            before = await budgets.get(tx, tenant, name)
            done = await budgets.reset(tx, tenant, name)
            if done:
                spent = {line.dimension: f"{line.spent:f}" for line in before.dimensions}
                said = {"action": "budget.reset", "target": name, "reason": reason}
                await audit(tx, actor=actor, **said, before={"spent": spent}, tenant=tenant)
            return done

        return Op(run)

    areset = reset.awaiting

    @writes
    def delete(self, name: str, *, actor: str = "app", reason: str = "") -> Op[bool]:
        """Delete a budget; False if there was none. Jobs that name it fail from then on."""
        tenant = self._scope.home
        return removal(
            lambda tx: budgets.remove(tx, tenant, name),
            action="budget.delete",
            target=name,
            actor=actor,
            reason=reason,
            tenant=tenant,
        )

    adelete = delete.awaiting

    @composed
    async def spend(
        self, line: Line, /, name: str, amounts: Amounts | None = None, *, key: str | None = None, **more: Amount
    ) -> Spent:
        """Record a spend, whatever the limits: `app.budgets.spend("team", tokens=812, key=request_id)`.

        The same `key` again within a day changes nothing. In a task, use `ctx.spend`.
        """
        return _told(await line.write(self._spending(name, {**(amounts or {}), **more}, key)))

    aspend = spend.awaiting

    @reads
    def spent_by(self, job: Job[Any] | str) -> Op[dict[str, dict[str, Decimal]]]:
        """Return what a job has spent, by budget and dimension."""
        return self._scope.sees(id_of(job), _spent_by(id_of(job)))

    aspent_by = spent_by.awaiting

    @writes
    def give_back(
        self, job: Job[Any] | str, *, actor: str = "app", reason: str = ""
    ) -> Op[dict[str, dict[str, Decimal]]]:
        """Refund what an ended job has spent, and release the jobs that fit; return the refunded amounts.

        A repeated call refunds nothing more. Totals over a budget's lifetime stay.
        """
        return self._scope.owns(id_of(job), self._giving_back(id_of(job), actor, reason))

    agive_back = give_back.awaiting

    def _giving_back(self, job_id: str, actor: str, reason: str) -> Op[dict[str, dict[str, Decimal]]]:
        tenant = self._scope.home

        async def run(tx: Tx) -> dict[str, dict[str, Decimal]]:
            done = _exact(await spending.give_back(tx, job_id))
            if done:
                after = {budget: {name: f"{n:f}" for name, n in amounts.items()} for budget, amounts in done.items()}
                said = {"action": "budget.give_back", "target": job_id, "reason": reason}
                await audit(tx, actor=actor, **said, after=after, tenant=tenant)
            return done

        return Op(run)

    def _spending(self, name: str, amounts: Amounts, key: str | None) -> Op[Spent]:
        tenant, wanted = self._scope.home, check_amounts("a spend", amounts)
        mark, shares = None if key is None else check_name("the spend's key", key), self._shares
        return Op(lambda tx: budgets.spend(tx, tenant, name, wanted, key=mark, shares=shares))


def declare_budget(
    name: str, limits: Limits, soft: Limits | None, every: Seconds | str | None, zone: str | None, within: str | None
) -> Op[None]:
    """Declare a budget in code; an operator's settings take precedence."""
    terms = _terms(limits, soft, NEVER if every is None else every, zone, within or "")
    budget = check_name("the budget's name", name)

    async def run(tx: Tx) -> None:
        await budgets.ensure(tx, "", budget, terms, origin="code")

    return Op(run)


def _terms(
    limits: Limits | None, soft: Limits | None, every: Seconds | str | None, zone: str | None, within: str | None
) -> Terms:
    when: dict[str, Any] = {}
    if isinstance(every, str) and every != NEVER and seconds_of(every) is None:
        when = {"expression": parse_cron(every, zone or "UTC").text, "zone": zone or "UTC"}
    elif every == NEVER:
        when = {"never": True}
    elif every is not None:
        when = {"every": _period(seconds_of(every) if isinstance(every, str) else every)}
    return Terms(
        limits=_checked("a limit", limits),
        soft=_checked("a soft limit", soft),
        within=check_name("the budget above", within) if within else within,
        **when,
    )


def _period(every: object) -> int:
    micros = check_duration("every", every)
    if micros < 1_000_000:
        raise InvalidInput("every is less than a second; give more")
    return micros


def _checked(what: str, given: Limits | None) -> dict[str, int | None]:
    return {
        check_name("the dimension", name): None if value is None else check_amount(f"{what}: {name}", value, zero=True)
        for name, value in (given or {}).items()
    }


def _told(spent: Spent) -> Spent:
    if not spent.again:
        tell(spent.crossed)
    return spent


def _shown(budget: Budget) -> dict[str, object]:
    return {
        "limits": {line.dimension: None if line.limit is None else f"{line.limit:f}" for line in budget.dimensions},
        "soft": {line.dimension: f"{line.soft:f}" for line in budget.dimensions if line.soft is not None},
        "every": budget.every,
        "cron": budget.cron,
        "within": budget.within,
    }


def _spent_by(job_id: str) -> Op[dict[str, dict[str, Decimal]]]:
    async def run(tx: Tx) -> dict[str, dict[str, Decimal]]:
        return _exact(await spending.spent_by(tx, job_id))

    return Op(run)


def _exact(charges: spending.Charges) -> dict[str, dict[str, Decimal]]:
    return {budget: {name: exact(n) for name, n in amounts.items()} for budget, amounts in sorted(charges.items())}
