"""Send signals to jobs, and list pending waits: `app.signal`, `app.signals`. Each method has an async version."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ..clock import SYSTEM_CLOCK
from ..errors import InvalidInput, InvalidToken, QueueFull, StorageError
from ..model.signals import MAX_SIGNALS, Pending, ReceivedSignal, Sent, Signal
from ..names import NAME_BYTES, check_name
from ..rules.signals import looks_like_token, parse
from ..storage.ops.signals import signals, waitpoints, waking
from ..storage.port import Op, Store, Tx
from ..tasks.job import Job
from ..values.codec import VALUE_LIMIT, encode
from .calls import composed, reads, writes
from .lines import Line
from .scope import EVERYTHING, Scope
from .transactions import joined

logger: Final = logging.getLogger("holdfast")

Target: TypeAlias = "str | Job[Any]"
MOST_LISTED: Final = 1_000
_BETWEEN_NOTES: Final = 10.0
_MOST_NAMED: Final = 100
"""Waitpoints whose refusals are counted between two notes; the others are only counted in all."""
_NAME_IT: Final = (
    'if this is the id of a job, name the signal as well: app.signal(job_id, "name", payload), or --name NAME at the'
    " command line"
)


class Signals:
    """The signals of one app."""

    def __init__(
        self, store: Callable[[], Store], scope: Scope = EVERYTHING, *, limit: Callable[[], int] = lambda: VALUE_LIMIT
    ) -> None:
        """`limit` returns the size limit of a payload in bytes."""
        self._store = store
        self._scope = scope
        self._limit = limit
        self._refusals = Refusals()

    @composed
    async def send(
        self,
        line: Line,
        target: Target,
        name: str | None = None,
        payload: object = None,
        *,
        key: str | None = None,
        source: str = "",
        tenant: str | None = None,
        connection: object | None = None,
    ) -> Sent:
        """Send a signal to a job, by its id or handle, or with a waitpoint's token instead.

        Without a `name` only a token is accepted: omit it if `target` comes from outside. A second signal with the same
        `key` is the same signal. With a `tenant`, only its jobs exist. A `connection` sends it in the caller's own
        transaction.
        """
        signal = Signal(**_checked(name, self._text(payload), key, source, self._scope.within(tenant)))
        theirs = joined(self._store, connection)
        if theirs is None and _is_by_token(target, signal):
            # A read first: whoever tries tokens must not make the store write for each.
            token = str(target)
            if await line.read(Op(lambda tx: signals.is_refused(tx, token, signal))):
                await self._refusals.note(line, token)
                return _sent(None, target)
        return _sent(await line.join(theirs, _send(target, signal)), target)

    asend = send.awaiting

    @reads
    def pending(
        self, job: Target | None = None, *, tenant: str | None = None, after: str = "", limit: int = 100
    ) -> Op[list[Pending]]:
        """Return open waitpoints, without their tokens, and names that suspended jobs wait for, oldest first.

        `after` is the last id of the page before.
        """
        n, job_id, whose = _limit(limit), None if job is None else _id(job), self._scope.within(tenant)
        return Op(lambda tx: waitpoints.pending(tx, tenant=whose, job_id=job_id, after=after, limit=n))

    apending = pending.awaiting

    @reads
    def received(
        self, job: Target, *, before: int | None = None, limit: int = 100
    ) -> Op[builtins.list[ReceivedSignal]]:
        """Return a job's signals, newest first, without payloads. `before` is the lowest number of the last page."""
        n, job_id, least = _limit(limit), _id(job), MAX_SIGNALS + 1 if before is None else before
        return self._scope.sees(job_id, Op(lambda tx: signals.mailbox(tx, job_id, before=least, limit=n), single=True))

    areceived = received.awaiting

    @writes
    def resume(
        self, job: Target, payload: object = None, *, tenant: str | None = None, actor: str = "app", reason: str = ""
    ) -> Op[None]:
        """Resume a suspended job with this answer, whatever it waits for. It is audited."""
        job_id, text, whose = _id(job), self._text(payload), self._scope.within(tenant)
        return Op(lambda tx: waking.resume(tx, job_id, text, actor=actor, reason=reason, tenant=whose))

    aresume = resume.awaiting

    @writes
    def answer(
        self, waitpoint: str, payload: object = None, *, actor: str = "app", reason: str = ""
    ) -> Op[Sent | None]:
        """Answer a pending wait by its id, as an operator; None if it is already answered. It is audited."""
        place = check_name("the id", waitpoint, limit=2 * NAME_BYTES + 1)
        signal = Signal(name="", payload=self._text(payload), source=actor, tenant=self._scope.tenant)
        return Op(lambda tx: signals.answer(tx, place, signal, actor=actor, reason=reason))

    aanswer = answer.awaiting

    @reads
    def refused(self) -> Op[int]:
        """Count the tokens that were refused since the store was created."""
        self._scope.whole("the count of refused tokens")
        waiting = self._refusals.waiting

        async def run(tx: Tx) -> int:
            return await signals.refused_tokens(tx) + waiting

        return Op(run, single=True)

    arefused = refused.awaiting

    def _text(self, payload: object) -> str:
        return encode(payload, what="the signal's payload", limit=self._limit())


class Refusals:
    """Refused tokens that are not counted in the store yet. They are written in sum, at most every ten seconds."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._next = 0.0

    @property
    def waiting(self) -> int:
        return sum(self._counts.values())

    async def note(self, line: Line, token: str) -> None:
        """Count one, and write all that wait if it is time."""
        named = parse(token).claims.jti
        named = named if named in self._counts or len(self._counts) < _MOST_NAMED else ""
        self._counts[named] = self._counts.get(named, 0) + 1
        now = SYSTEM_CLOCK.monotonic()
        if now < self._next:
            return
        self._next = now + _BETWEEN_NOTES
        counts, self._counts = self._counts, {}
        try:
            await line.write(Op(lambda tx: signals.note_refusals(tx, counts)))
        except (StorageError, QueueFull) as error:
            logger.debug("%d refused tokens were not counted: %s", sum(counts.values()), error)


def _is_by_token(target: Target, signal: Signal) -> bool:
    return isinstance(target, str) and (not signal.name or looks_like_token(target))


def _send(target: Target, signal: Signal) -> Op[Sent | None]:
    if isinstance(target, str) and _is_by_token(target, signal):
        return Op(lambda tx: signals.send_by_token(tx, target, signal))
    if not signal.name:
        raise InvalidInput("a signal to a job needs a name; only a token can do without")
    job_id = _id(target)
    return Op(lambda tx: _by_id(tx, job_id, signal))


async def _by_id(tx: Tx, job_id: str, signal: Signal) -> Sent | None:
    return await signals.send(tx, job_id, signal)


def _sent(answer: Sent | None, target: Target) -> Sent:
    # A refusal is a value inside the transaction, not an error: its record must be committed.
    if answer is None:
        # By the form of the text alone, so that it is not said whether there is such a job.
        raise InvalidToken if looks_like_token(str(target)) else InvalidToken(_NAME_IT)
    if answer.waits_for:
        waits_for = ", ".join(map(repr, answer.waits_for))
        logger.warning("job %s waits for %s; signal %d is kept for later", answer.job_id, waits_for, answer.seq)
    return answer


def _checked(name: str | None, payload: str, key: str | None, source: str, tenant: str | None) -> dict[str, Any]:
    return {
        "name": "" if name is None else check_name("the signal's name", name),
        "payload": payload,
        "key": None if key is None else check_name("the signal's key", key),
        "source": check_name("the source", source) if source else "",
        "tenant": tenant,
    }


def _id(job: Target) -> str:
    return check_name("the id", job.id if isinstance(job, Job) else job)


def _limit(limit: int) -> int:
    if not 1 <= limit <= MOST_LISTED:
        raise InvalidInput(f"limit is {limit}; use 1 to {MOST_LISTED:,}")
    return limit
