"""Signals: sent to jobs by name or with a waitpoint's token, and what waits for one."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from ...errors import InvalidToken
from ...rules.tokens import LONGEST
from ...shapes.pages import Page, part, place_at
from ...shapes.signals import Letter, Resumed, SignalSent, Waitpoint, of_letter, of_pending, of_sent
from ..guard.throttle import Throttle, caller_of
from ..wire.call import Call
from ..wire.failures import Refused
from ..wire.operation import Group
from .types import Listing, Name, Reason

group = Group("Signals", "What jobs are told while they wait, and the waitpoints where that arrives.")

# A token cannot be guessed; this keeps the guesses from costing the store a write each.
_MISSES: Final = Throttle(burst=20, per_second=0.5)


class NewSignal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A second signal with the same key is the same signal. Only an administrator may speak for another source."""

    name: Name
    payload: Any = None
    key: Name | None = None
    source: Name | None = None


class TokenSignal(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A waitpoint's token, and what its holder has to say."""

    token: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST)]
    payload: Any = None
    key: Name | None = None


class Resuming(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the job gets as its answer."""

    payload: Any = None
    reason: Reason = ""


class WaitpointQuery(Listing, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Whose waitpoints."""

    tenant: Name | None = None
    job: Name | None = None


@group.post("/jobs/{job_id}/signals", needs="signal")
async def send_signal(call: Call, job_id: Name, body: NewSignal) -> SignalSent:
    """Send a signal to a job.

    Where a waitpoint of that name is open, it arrives there. Its source is the caller.
    """
    if body.source is not None and not call.may("admin"):
        raise Refused(403, "forbidden", "only an administrator may say that a signal comes from somebody else")
    # By its handle: text in a path is never taken for a token, since paths are logged.
    target, source = call.client.handle(job_id), body.source or call.actor
    return of_sent(await call.client.signals.asend(target, body.name, body.payload, key=body.key, source=source))


@group.post("/signals", needs="nothing")
async def send_by_token(call: Call, body: TokenSignal) -> SignalSent:
    """Send a signal with a waitpoint's token.

    The token is all that is needed; the body may have 256 KiB. A token that is wrong, expired, used up or of another
    tenant is answered alike.
    """
    try:
        return of_sent(await call.client.signals.asend(body.token, payload=body.payload, key=body.key))
    except InvalidToken:
        if wait := _MISSES.take(caller_of(call.request)):
            raise Refused(
                429, "rate_limited", "too many wrong tokens; wait a little", {"retry-after": str(int(wait) + 1)}
            ) from None
        raise


@group.get("/waitpoints", needs="read")
async def list_waitpoints(call: Call, query: WaitpointQuery) -> Page[Waitpoint]:
    """Waitpoints that take a signal, without their tokens, and names that suspended jobs wait for, oldest first.

    Answer a name with POST /jobs/{job_id}/signals.
    """
    after = place_at(query.after)[0] if query.after else ""
    found = await call.client.signals.apending(query.job, tenant=query.tenant, after=after, limit=query.limit)
    return part(found, query.limit, of_pending, lambda one: (one.id,))


@group.get("/jobs/{job_id}/signals", needs="read")
async def list_signals(call: Call, job_id: Name, query: Listing) -> Page[Letter]:
    """The signals that a job was sent, newest first, without their payloads."""
    before = None if query.after is None else _number(query.after)
    found = await call.client.signals.areceived(job_id, before=before, limit=query.limit)
    if not found:
        await call.client.jobs.aget(job_id, whole=False)
    return part(found, query.limit, of_letter, lambda one: (str(one.seq),))


@group.post("/jobs/{job_id}/resume", needs="operate", small=False)
async def resume_job(call: Call, job_id: Name, body: Resuming) -> Resumed:
    """Let a suspended job go on with this answer, whatever it waits for."""
    await call.client.signals.aresume(job_id, body.payload, actor=call.actor, reason=body.reason)
    return Resumed(job_id=job_id, resumed=True)


def _number(cursor: str) -> int:
    (text,) = place_at(cursor)
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise Refused(422, "invalid_cursor", "the cursor was not given out by this list; start without one")
    return int(text)
