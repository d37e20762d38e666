"""What operators do to limits, rates, breakers and quotas."""

from __future__ import annotations

from typing import Final, Literal

from ...errors import InvalidInput
from ..wire.call import Call
from ..wire.operation import Group
from .asking import ActForm, Word, ask, back_at, number_of, span_of, wanted_number
from .frame import Done, Page

group = Group("Limit actions", kind="page")

_HERE: Final = "/limits"
_WHAT: Final = "the limits of the whole store"


class LaneForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How many jobs of a task or queue run at once."""

    kind: Literal["task", "queue"]
    name: Word
    n: Word = ""


class RateForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A token bucket."""

    name: Word
    capacity: Word = ""
    per_second: Word = ""


class BreakerForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """After so many failures in a row it opens for a while."""

    name: Word
    failures: Word = ""
    open_for: Word = ""


class QuotaForm(ActForm, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """So many within a window, so many at once; empty is without that limit."""

    name: Word
    tenant: Word = ""
    limit: Word = ""
    window: Word = ""
    concurrency: Word = ""


@group.post("/limits/lanes", needs="operate")
@back_at("/limits#lanes")
async def set_lane(call: Call, form: LaneForm) -> Done | Page:
    """Let at most so many jobs run at once."""
    limits = call.whole(_WHAT).limits
    n = wanted_number("the number of jobs at once", form.n)
    task, queue = (form.name, None) if form.kind == "task" else (None, form.name)
    await limits.aset_concurrency(n, task=task, queue=queue, actor=call.actor, reason=form.reason)
    return Done("/limits#lanes", f"At most {n} jobs of {form.kind} {form.name} run at once from now on.")


@group.post("/limits/lanes/clear", needs="operate")
@back_at("/limits#lanes")
async def clear_lane(call: Call, form: LaneForm) -> Done | Page:
    """Remove the limit of a task or queue."""
    if not form.confirmed:
        text = "As many run at once as workers have slots."
        return ask(
            call, form, title=f"Remove the limit of {form.name}?", text=text, go="Remove", back=_HERE, page="limits"
        )
    task, queue = (form.name, None) if form.kind == "task" else (None, form.name)
    limits = call.whole(_WHAT).limits
    done = await limits.aclear_concurrency(task=task, queue=queue, actor=call.actor, reason=form.reason)
    return _said("/limits#lanes", done, "The limit is removed.", "There was no such limit; nothing was changed.")


@group.post("/limits/rates", needs="operate")
@back_at("/limits#rates")
async def set_rate(call: Call, form: RateForm) -> Done | Page:
    """Make or change a token bucket."""
    most, refill = _amount("the capacity", form.capacity), _amount("the rate per second", form.per_second)
    limits = call.whole(_WHAT).limits
    await limits.aset_rate(form.name, capacity=most, per_second=refill, actor=call.actor, reason=form.reason)
    return Done("/limits#rates", f"{form.name}: {refill:g} a second, up to {most:g} at once.")


@group.post("/limits/rates/clear", needs="operate")
@back_at("/limits#rates")
async def clear_rate(call: Call, form: RateForm) -> Done | Page:
    """Remove a token bucket."""
    if not form.confirmed:
        text = "Jobs that name it wait until there is one again."
        return ask(
            call, form, title=f"Remove the rate {form.name}?", text=text, go="Remove", back=_HERE, page="limits",
            danger=True,
        )  # fmt: skip
    done = await call.whole(_WHAT).limits.aclear_rate(form.name, actor=call.actor, reason=form.reason)
    return _said("/limits#rates", done, "The rate is removed.", "There was no such rate; nothing was changed.")


@group.post("/limits/breakers", needs="operate")
@back_at("/limits#breakers")
async def set_breaker(call: Call, form: BreakerForm) -> Done | Page:
    """Make or change a breaker."""
    failures = wanted_number("the number of failures", form.failures)
    open_for = span_of("the time for which it opens", form.open_for)
    if open_for is None:
        raise InvalidInput("the time for which it opens is missing; write seconds, or such as 30s, 5m")
    breakers = call.whole(_WHAT).breakers
    await breakers.aset(form.name, failures=failures, open_for=open_for, actor=call.actor, reason=form.reason)
    return Done("/limits#breakers", f"{form.name} opens for {open_for:g} s after {failures} failures in a row.")


@group.post("/limits/breakers/trip", needs="operate")
@back_at("/limits#breakers")
async def trip(call: Call, form: BreakerForm) -> Done | Page:
    """Open a breaker by hand."""
    if not form.confirmed:
        text = "No job that names it starts for a while; then one tries. Reset closes it."
        return ask(call, form, title=f"Trip {form.name}?", text=text, go="Trip", back=_HERE, page="limits")
    breakers = call.whole(_WHAT).breakers
    before = await breakers.aget(form.name)
    rest = span_of("the time for which it opens", form.open_for)
    await breakers.atrip(form.name, rest, actor=call.actor, reason=form.reason)
    again = before.state == "open"
    return Done("/limits#breakers", f"{form.name} {'was open; it stays so for longer' if again else 'is open'}.")


@group.post("/limits/breakers/reset", needs="operate")
@back_at("/limits#breakers")
async def reset(call: Call, form: BreakerForm) -> Done | Page:
    """Close a breaker by hand."""
    breakers = call.whole(_WHAT).breakers
    before = await breakers.aget(form.name)
    if before.state == "closed" and not before.failures:
        return Done("/limits#breakers", f"{form.name} was closed already; nothing was changed.", ok=False)
    await breakers.areset(form.name, actor=call.actor, reason=form.reason)
    return Done("/limits#breakers", f"{form.name} is closed, and what waited behind it goes on.")


@group.post("/limits/quotas", needs="operate")
@back_at("/limits#quotas")
async def set_quota(call: Call, form: QuotaForm) -> Done | Page:
    """Make or change a quota."""
    quotas = call.client.quotas.of(form.tenant) if form.tenant else call.client.quotas
    changed = await quotas.aset(
        form.name,
        limit=number_of("the limit", form.limit),
        window=span_of("the window", form.window),
        concurrency=number_of("the number at once", form.concurrency),
        actor=call.actor,
        reason=form.reason,
    )
    return _said("/limits#quotas", changed, f"{form.name} is set.", "It was set so already; nothing was changed.")


def _amount(what: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{what} is {text!r}; give a number") from None


def _said(to: str, done: bool, say: str, otherwise: str) -> Done:
    return Done(to, say if done else otherwise, ok=done)
