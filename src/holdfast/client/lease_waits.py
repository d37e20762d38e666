"""Waits of runs elsewhere: the part of `app.leases` by which a job rests until a signal comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from ..errors import InvalidInput
from ..model.lease import Waited
from ..model.wait import Answer, Condition, Distinct, OnTimeout, Opened, Wait
from ..names import check_duration, check_name
from ..options import Seconds
from ..rules.replay import check_call_name, key_of
from ..rules.schemas import check_schema
from ..rules.waiting import check_distinct, check_needed, check_on_timeout, in_order
from ..storage.ops import lent_waits
from ..storage.ops.lent_waits import Opening, Rest
from ..storage.port import Op
from ..storage.step import step
from .lease_base import LeaseBase
from .lines import Line

DAY: Final = 86_400.0


class LeaseWaits(LeaseBase):
    """A wait is a step of the job's journal: the run that comes after it asks the same, and is answered."""

    def waitpoint(
        self,
        handle: str,
        name: str,
        *,
        expires: Seconds = DAY,
        schema: Mapping[str, Any] | None = None,
        once: bool = True,
    ) -> Opened:
        """Open a place for a signal, with a token that lets its holder send it; the same again on a repeat."""
        return step(self._waitpoint(self._blocking, handle, _opening(name, expires, schema, once)))

    async def awaitpoint(
        self,
        handle: str,
        name: str,
        *,
        expires: Seconds = DAY,
        schema: Mapping[str, Any] | None = None,
        once: bool = True,
    ) -> Opened:
        return await self._waitpoint(self._awaiting, handle, _opening(name, expires, schema, once))

    def suspend(
        self,
        handle: str,
        *names: str,
        waitpoint: bool = False,
        waitpoints: Sequence[Opened | str] = (),
        needed: int | Literal["all"] | None = None,
        distinct: Distinct = "signals",
        expires: Seconds = DAY,
        schema: Mapping[str, Any] | None = None,
        timeout: Seconds | None = None,
        on_timeout: OnTimeout = "fail",
        delay: Seconds = 0,
        step_name: str | None = None,
    ) -> Waited:
        """Wait for signals by their names and at `waitpoints`; where nothing is named, for an operator or the timeout.

        With `waitpoint` it opens one of that name, and waits for the signal that its token sends. `needed` and
        `distinct` are those of `ctx.wait_for`: the first signal ends the wait, or so many, or "all".

        Where they have come already, the run goes on with them. Otherwise the job is suspended and no longer the
        worker's: when they have come, the job is claimed again, and the same call gives the answer. A job that waits
        for the same signal more than once names each wait by `step_name`.
        """
        opening = _opening_of(names, waitpoints, needed, expires, schema) if waitpoint else None
        condition = _condition(names, waitpoints, needed, distinct, opening)
        wait = _wait(names, step_name, condition, schema, timeout, on_timeout, delay)
        return step(self._suspend(self._blocking, handle, wait, opening))

    async def asuspend(
        self,
        handle: str,
        *names: str,
        waitpoint: bool = False,
        waitpoints: Sequence[Opened | str] = (),
        needed: int | Literal["all"] | None = None,
        distinct: Distinct = "signals",
        expires: Seconds = DAY,
        schema: Mapping[str, Any] | None = None,
        timeout: Seconds | None = None,
        on_timeout: OnTimeout = "fail",
        delay: Seconds = 0,
        step_name: str | None = None,
    ) -> Waited:
        opening = _opening_of(names, waitpoints, needed, expires, schema) if waitpoint else None
        condition = _condition(names, waitpoints, needed, distinct, opening)
        wait = _wait(names, step_name, condition, schema, timeout, on_timeout, delay)
        return await self._suspend(self._awaiting, handle, wait, opening)

    async def _waitpoint(self, line: Line, handle: str, opening: Opening) -> Opened:
        lease = await self._lease(line, handle)
        return await line.write(Op(lambda tx: lent_waits.open_for(tx, lease, opening)))

    async def _suspend(self, line: Line, handle: str, wait: Wait, opening: Opening | None) -> Waited:
        lease = await self._lease(line, handle)
        rest = await line.write(Op(lambda tx: lent_waits.suspend(tx, lease, wait, opening)))
        return _waited(lease.job_id, wait, rest)


def _opening(name: object, expires: Seconds, schema: object, once: bool) -> Opening:
    named = check_call_name(check_name("the waitpoint's name", name))
    lifetime = check_duration("expires", expires)
    return Opening(key_of("waitpoint", named, 1), named, lifetime, check_schema(schema), bool(once))


def _opening_of(names: Sequence[str], waitpoints: object, needed: object, expires: Seconds, schema: object) -> Opening:
    if len(names) != 1 or waitpoints or needed is not None:
        raise InvalidInput("waitpoint=True opens one, with one name; for more, open each and give them as waitpoints=")
    return _opening(names[0], expires, schema, True)


def _condition(
    names: Sequence[str],
    waitpoints: Sequence[Opened | str],
    needed: object,
    distinct: Distinct,
    opening: Opening | None,
) -> Condition:
    """The condition of a wait. That for a waitpoint which is yet to be opened gets its id in the transaction."""
    named = tuple(check_name("the signal's name", name) for name in names)
    if isinstance(waitpoints, str):
        raise InvalidInput(f"waitpoints is {waitpoints!r}; give a list")
    places = tuple(_id(place) for place in waitpoints)
    asked = len(named) + len(places)
    if needed == "all" and not asked:
        raise InvalidInput("needed is 'all', and nothing is waited for; name what is needed")
    return Condition(
        names=() if opening is not None else named,
        waitpoints=places,
        needed=check_needed(needed, asked),
        distinct=check_distinct(distinct),
    )


def _id(place: Opened | str) -> str:
    return place.id if isinstance(place, Opened) else check_name("the waitpoint's id", place)


def _wait(
    names: Sequence[str],
    step_name: str | None,
    condition: Condition,
    schema: object,
    timeout: Seconds | None,
    on_timeout: OnTimeout,
    delay: Seconds,
) -> Wait:
    first = next(iter((*names, *condition.waitpoints)), "operator")
    named = check_call_name(first if step_name is None else check_name("the step's name", step_name))
    return Wait(
        key=key_of("wait", named, 1),
        reason="signal" if names or condition.waitpoints else "operator",
        condition=condition,
        timeout=None if timeout is None else check_duration("timeout", timeout),
        on_timeout=check_on_timeout(on_timeout),
        schema=check_schema(schema),
        delay=check_duration("delay", delay),
    )


def _waited(job_id: str, wait: Wait, rest: Rest) -> Waited:
    if rest.answer is not None:
        return Waited(job_id, "running", rest.answer.how, _value(rest.answer, wait.condition))
    assert rest.verdict is not None
    token = None if rest.opened is None else rest.opened.token
    expires_at = None if rest.opened is None else rest.opened.expires_at
    return Waited(job_id, rest.verdict.state, token=token, expires_at=expires_at, again=rest.verdict.again)


def _value(answer: Answer, asked: Condition) -> Any:
    if answer.how == "operator":
        return msgspec.json.decode(answer.payload)
    if answer.how != "signals":
        return None
    values = [msgspec.json.decode(signal.payload) for signal in in_order(answer.signals, asked)]
    return values[0] if asked.needed == 1 and len(asked.names) + len(asked.waitpoints) < 2 else values
