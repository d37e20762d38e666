"""Operator actions on limits, rates, breakers and quotas."""

from __future__ import annotations

from typing import Final, Literal

from ...errors import InvalidInput
from ..wire.call import Call
from ..wire.operation import Group
from .forms import ActForm, Word, ask, back_at, number_of, span_of, wanted_number
from .frame import Done, Page

group = Group("Limit actions", kind="page")

_HERE: Final = "/limits"
_WHAT: Final = "the limits of the whole store"


class LaneForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The concurrency limit of a task or queue."""

    kind: Literal["task", "queue"]
    name: Word
    n: Word = ""


class RateForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A token bucket."""

    name: Word
    capacity: Word = ""
    per_second: Word = ""


class BreakerForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A breaker: it opens for a while after this many consecutive failures."""

    name: Word
    failures: Word = ""
    open_for: Word = ""


class QuotaForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A quota: a number of jobs per window, and a concurrency. Empty means no limit."""

    name: Word
    tenant: Word = ""
    limit: Word = ""
    window: Word = ""
    concurrency: Word = ""


@group.post("/limits/lanes", needs="operate")
@back_at("/limits#lanes")
async def set_lane(call: Call, form: LaneForm) -> Done | Page:
    """Set the concurrency limit of a task or queue."""
    limits = call.whole(_WHAT).limits
    n = wanted_number("the concurrency", form.n)
    task, queue = (form.name, None) if form.kind == "task" else (None, form.name)
    await limits.aset_concurrency(n, task=task, queue=queue, actor=call.actor, reason=form.reason)
    return Done("/limits#lanes", f"Concurrency of {form.kind} {form.name} set to {n}.")


@group.post("/limits/lanes/clear", needs="operate")
@back_at("/limits#lanes")
async def clear_lane(call: Call, form: LaneForm) -> Done | Page:
    """Remove the concurrency limit of a task or queue."""
    if not form.confirmed:
        text = "Concurrency is then bounded only by worker slots."
        return ask(
            call, form, title=f"Remove the limit of {form.name}?", text=text, go="Remove", back=_HERE, page="limits"
        )
    task, queue = (form.name, None) if form.kind == "task" else (None, form.name)
    limits = call.whole(_WHAT).limits
    done = await limits.aclear_concurrency(task=task, queue=queue, actor=call.actor, reason=form.reason)
    return _said("/limits#lanes", done, "Limit removed.", "There was no such limit; nothing changed.")


@group.post("/limits/rates", needs="operate")
@back_at("/limits#rates")
async def set_rate(call: Call, form: RateForm) -> Done | Page:
    """Create or change a token bucket."""
    most, refill = _amount("the capacity", form.capacity), _amount("the rate per second", form.per_second)
    limits = call.whole(_WHAT).limits
    await limits.aset_rate(form.name, capacity=most, per_second=refill, actor=call.actor, reason=form.reason)
    return Done("/limits#rates", f"{form.name}: {refill:g} per second, burst of {most:g}.")


@group.post("/limits/rates/clear", needs="operate")
@back_at("/limits#rates")
async def clear_rate(call: Call, form: RateForm) -> Done | Page:
    """Remove a token bucket."""
    if not form.confirmed:
        text = "Jobs that use it wait until the rate is set again."
        return ask(
            call, form, title=f"Remove the rate {form.name}?", text=text, go="Remove", back=_HERE, page="limits",
            danger=True,
        )  # fmt: skip
    done = await call.whole(_WHAT).limits.aclear_rate(form.name, actor=call.actor, reason=form.reason)
    return _said("/limits#rates", done, "Rate removed.", "There was no such rate; nothing changed.")


@group.post("/limits/breakers", needs="operate")
@back_at("/limits#breakers")
async def set_breaker(call: Call, form: BreakerForm) -> Done | Page:
    """Create or change a breaker."""
    failures = wanted_number("the number of failures", form.failures)
    open_for = span_of("the time it stays open", form.open_for)
    if open_for is None:
        raise InvalidInput("the time it stays open is missing; enter seconds, or for example 30s or 5m")
    breakers = call.whole(_WHAT).breakers
    await breakers.aset(form.name, failures=failures, open_for=open_for, actor=call.actor, reason=form.reason)
    return Done("/limits#breakers", f"{form.name} opens for {open_for:g} s after {failures} failures in a row.")


@group.post("/limits/breakers/trip", needs="operate")
@back_at("/limits#breakers")
async def trip(call: Call, form: BreakerForm) -> Done | Page:
    """Open a breaker by hand."""
    if not form.confirmed:
        text = "Jobs that use it stop starting; after a while one trial job runs. Reset closes it."
        return ask(call, form, title=f"Trip {form.name}?", text=text, go="Trip", back=_HERE, page="limits")
    breakers = call.whole(_WHAT).breakers
    before = await breakers.aget(form.name)
    rest = span_of("the time it stays open", form.open_for)
    await breakers.atrip(form.name, rest, actor=call.actor, reason=form.reason)
    again = before.state == "open"
    return Done(
        "/limits#breakers", f"{form.name} {'was already open; it now stays open longer' if again else 'is open'}."
    )


@group.post("/limits/breakers/reset", needs="operate")
@back_at("/limits#breakers")
async def reset(call: Call, form: BreakerForm) -> Done | Page:
    """Close a breaker by hand."""
    breakers = call.whole(_WHAT).breakers
    before = await breakers.aget(form.name)
    if before.state == "closed" and not before.failures:
        return Done("/limits#breakers", f"{form.name} was already closed; nothing changed.", ok=False)
    await breakers.areset(form.name, actor=call.actor, reason=form.reason)
    return Done("/limits#breakers", f"{form.name} is closed; waiting jobs can start.")


@group.post("/limits/quotas", needs="operate")
@back_at("/limits#quotas")
async def set_quota(call: Call, form: QuotaForm) -> Done | Page:
    """Create or change a quota."""
    quotas = call.client.quotas.of(form.tenant) if form.tenant else call.client.quotas
    changed = await quotas.aset(
        form.name,
        limit=number_of("the limit", form.limit),
        window=span_of("the window", form.window),
        concurrency=number_of("the concurrency", form.concurrency),
        actor=call.actor,
        reason=form.reason,
    )
    return _said("/limits#quotas", changed, f"{form.name} is set.", "Already set; nothing changed.")


def _amount(what: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{what} is {text!r}; give a number") from None


def _said(to: str, done: bool, say: str, otherwise: str) -> Done:
    return Done(to, say if done else otherwise, ok=done)
