"""Waits of runs elsewhere: the part of `app.leases` by which a job rests until a signal comes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

import msgspec

from ..errors import InvalidInput
from ..model.lease import Waited
from ..model.wait import Answer, Condition, OnTimeout, Opened, Wait
from ..names import check_duration, check_name
from ..options import Seconds
from ..rules.replay import check_call_name, key_of
from ..rules.schemas import check_schema
from ..storage.ops import lent_waits
from ..storage.ops.lent_waits import Opening, Rest
from ..storage.port import Op
from ..storage.step import step
from .lease_base import LeaseBase
from .lease_reach import Line

DAY: Final = 86_400.0
_ON_TIMEOUT: Final = get_args(OnTimeout)


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
        name: str,
        *,
        waitpoint: bool = False,
        expires: Seconds = DAY,
        schema: Mapping[str, Any] | None = None,
        timeout: Seconds | None = None,
        on_timeout: OnTimeout = "fail",
        step_name: str | None = None,
    ) -> Waited:
        """Wait for the signal `name`, or with `waitpoint` for the one that its token sends.

        Where it has come already, the run goes on with it. Otherwise the job is suspended and no longer the worker's:
        when it has come, the job is claimed again, and the same call gives the answer. A job that waits for the same
        signal more than once names each wait by `step_name`.
        """
        opening = _opening(name, expires, schema, True) if waitpoint else None
        wait = _wait(name, step_name, opening, schema, timeout, on_timeout)
        return step(self._suspend(self._blocking, handle, wait, opening))

    async def asuspend(
        self,
        handle: str,
        name: str,
        *,
        waitpoint: bool = False,
        expires: Seconds = DAY,
        schema: Mapping[str, Any] | None = None,
        timeout: Seconds | None = None,
        on_timeout: OnTimeout = "fail",
        step_name: str | None = None,
    ) -> Waited:
        opening = _opening(name, expires, schema, True) if waitpoint else None
        wait = _wait(name, step_name, opening, schema, timeout, on_timeout)
        return await self._suspend(self._awaiting, handle, wait, opening)

    async def _waitpoint(self, line: Line, handle: str, opening: Opening) -> Opened:
        lease = await self._lease(line, handle)
        return await line.write(Op(lambda tx: lent_waits.open_for(tx, lease, opening)))

    async def _suspend(self, line: Line, handle: str, wait: Wait, opening: Opening | None) -> Waited:
        lease = await self._lease(line, handle)
        rest = await line.write(Op(lambda tx: lent_waits.suspend(tx, lease, wait, opening)))
        return _waited(lease.job_id, rest)


def _opening(name: object, expires: Seconds, schema: object, once: bool) -> Opening:
    named = check_call_name(check_name("the waitpoint's name", name))
    lifetime = check_duration("expires", expires)
    return Opening(key_of("waitpoint", named, 1), named, lifetime, check_schema(schema), bool(once))


def _wait(
    name: object,
    step_name: object,
    opening: Opening | None,
    schema: object,
    timeout: Seconds | None,
    on_timeout: OnTimeout,
) -> Wait:
    if on_timeout not in _ON_TIMEOUT:
        raise InvalidInput(f"on_timeout is {on_timeout!r}; use one of {', '.join(_ON_TIMEOUT)}")
    signal = check_name("the signal's name", name)
    named = check_call_name(signal if step_name is None else check_name("the step's name", step_name))
    return Wait(
        key=key_of("wait", named, 1),
        reason="signal",
        condition=Condition() if opening is not None else Condition(names=(signal,)),
        timeout=None if timeout is None else check_duration("timeout", timeout),
        on_timeout=on_timeout,
        schema=check_schema(schema),
    )


def _waited(job_id: str, rest: Rest) -> Waited:
    if rest.answer is not None:
        return Waited(job_id, "running", rest.answer.how, _value(rest.answer))
    assert rest.verdict is not None
    token = None if rest.opened is None else rest.opened.token
    expires_at = None if rest.opened is None else rest.opened.expires_at
    return Waited(job_id, rest.verdict.state, token=token, expires_at=expires_at, again=rest.verdict.again)


def _value(answer: Answer) -> Any:
    if answer.how == "signals":
        return msgspec.json.decode(answer.signals[0].payload)
    return msgspec.json.decode(answer.payload) if answer.how == "operator" else None
