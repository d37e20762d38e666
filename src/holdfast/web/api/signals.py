"""Signals: sending them by name or waitpoint token, and listing what waits for one."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from ...errors import InvalidToken
from ...model.signals import ReceivedSignal, Sent, Waitpoint
from ...rules.signals import LONGEST
from ..guard.throttle import Throttle, caller_of
from ..wire.call import Call
from ..wire.failures import Refused
from ..wire.operation import Group
from .paging import Page, part, place_at
from .types import Listing, Name, Reason

group = Group("Signals", "Signals to waiting jobs, and the waitpoints that receive them.")

# A token cannot be guessed; the limit keeps guesses from costing the store a lookup each.
_MISSES: Final = Throttle(burst=20, per_second=0.5)


class NewSignal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A signal. Repeating its key changes nothing. Only an administrator may set another source."""

    name: Name
    payload: Any = None
    key: Name | None = None
    source: Name | None = None


class TokenSignal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A waitpoint's token, and the payload."""

    token: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST)]
    payload: Any = None
    key: Name | None = None


class Resuming(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The answer that the job receives."""

    payload: Any = None
    reason: Reason = ""


class WaitpointQuery(Listing, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Filters on waitpoints."""

    tenant: Name | None = None
    job: Name | None = None


@group.post("/jobs/{job_id}/signals", needs="signal")
async def send_signal(call: Call, job_id: Name, body: NewSignal) -> Sent:
    """Send a signal to a job. An open waitpoint of that name receives it. The caller is its source.

    Where a waitpoint of that name is open, it arrives there. Its source is the caller.
    """
    if body.source is not None and not call.may("admin"):
        raise Refused(403, "forbidden", "only an administrator may set another source for a signal")
    # By its handle: text in a path is never taken as a token, since paths are logged.
    target, source = call.client.job(job_id), body.source or call.actor
    return await call.client.signals.asend(target, body.name, body.payload, key=body.key, source=source)


@group.post("/signals", needs="nothing")
async def send_by_token(call: Call, body: TokenSignal) -> Sent:
    """Send a signal with a waitpoint's token.

    No other authentication is needed; the body may have 256 KiB. An invalid, expired or used token and one of another
    tenant give the same response.
    """
    caller = caller_of(call.request)
    if wait := _MISSES.ask(caller):
        raise Refused(
            429, "rate_limited", "too many invalid tokens; try again in a moment", {"retry-after": str(int(wait) + 1)}
        )
    try:
        return await call.client.signals.asend(body.token, payload=body.payload, key=body.key)
    except InvalidToken:
        _MISSES.take(caller)
        # The same for every text, without the advice for callers in code.
        raise InvalidToken from None


class Resumed(msgspec.Struct, frozen=True, kw_only=True):
    """The job resumes."""

    job_id: str
    resumed: bool


@group.get("/waitpoints", needs="read")
async def list_waitpoints(call: Call, query: WaitpointQuery) -> Page[Waitpoint]:
    """List open waitpoints without their tokens, and signals that suspended jobs wait for, oldest first.

    Send a signal by name with POST /jobs/{job_id}/signals.
    """
    after = place_at(query.after)[0] if query.after else ""
    found = await call.client.signals.apending(query.job, tenant=query.tenant, after=after, limit=query.limit)
    return part([one.waitpoint for one in found], query.limit, lambda one: (one.id,))


@group.get("/jobs/{job_id}/signals", needs="read")
async def list_signals(call: Call, job_id: Name, query: Listing) -> Page[ReceivedSignal]:
    """List the signals sent to a job, newest first, without their payloads."""
    before = None if query.after is None else _number(query.after)
    found = await call.client.signals.areceived(job_id, before=before, limit=query.limit)
    if not found:
        await call.client.jobs.aget(job_id, whole=False)
    return part(found, query.limit, lambda one: (str(one.seq),))


@group.post("/jobs/{job_id}/resume", needs="operate", small=False)
async def resume_job(call: Call, job_id: Name, body: Resuming) -> Resumed:
    """Resume a suspended job with this answer, whatever it waits for."""
    await call.client.signals.aresume(job_id, body.payload, actor=call.actor, reason=body.reason)
    return Resumed(job_id=job_id, resumed=True)


def _number(cursor: str) -> int:
    (text,) = place_at(cursor)
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise Refused(422, "invalid_cursor", "invalid cursor for this list; start without one")
    return int(text)
