"""Handles of leased jobs: `hf2.<backend>.<store>.<run>.<mac>`. They identify a run of a job and its store.

The MAC is made with a key of the store and covers the holder of the worker, so that only that holder can use a handle,
and handles cannot be forged. Every write also checks the job's owner in the store.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec

from ..errors import BadHandle, InvalidInput
from ..model import remote
from ..model.outcomes import Cancelled, Done, Expired, Outcome, Released, Snoozed
from ..names import check_duration, check_name
from ..outcomes import check_reason
from ..values.codec import VALUE_LIMIT, encode
from . import base64url
from .failure import Failure, FailureClass, Tried, at_least, decide, error_json
from .retry import RetryPolicy

LONGEST: Final = 640
"""Characters of a handle."""
_VERSION: Final = "hf2"
_MAC_BYTES: Final = 16
_PURPOSE: Final = b"holdfast handle"
_STORE: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_LIKE_A_VERSION: Final = re.compile(r"hf\d{1,3}", re.ASCII)
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Lease(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One run of one job: its owner and epoch."""

    job_id: str
    epoch: _Count
    worker: str
    generation: _Count
    attempt: _Count


@dataclass(frozen=True, slots=True)
class Origin:
    """The store that issues handles, and the key that signs them."""

    backend: str
    store: str
    key: bytes = field(repr=False)


def write(origin: Origin, lease: Lease, holder: str = "") -> str:
    """Return the handle of a run, for the holder of its worker, the same each time."""
    text = f"{_VERSION}.{origin.backend}.{origin.store}.{base64url.encode(msgspec.json.encode(lease))}"
    return f"{text}.{_mac(origin.key, text, holder)}"


def read(origin: Origin, handle: object, holder: str = "") -> Lease:
    """Return the run that a handle identifies.

    BadHandle if it is damaged or forged, was issued to another holder, or is of another version or store.
    """
    if not isinstance(handle, str) or len(handle) > LONGEST or not handle.isascii():
        raise _corrupt()
    version, *rest = handle.split(".")
    if version != _VERSION and _LIKE_A_VERSION.fullmatch(version):
        raise BadHandle(
            "version",
            f"the handle has the format {version}, and this Holdfast reads {_VERSION}; finish the job through the "
            "version that gave it out, or let its lease run out and claim again",
        )
    try:
        backend, store, _, _ = rest
        lease = _run_of(handle)
    except (ValueError, msgspec.MsgspecError, RecursionError, InvalidInput):
        raise _corrupt() from None
    if not hmac.compare_digest(write(origin, lease, holder), handle):
        # The key of another store is not known here: the handle's own text is the only sign that it is foreign.
        if _STORE.fullmatch(store) and (backend, store) != (origin.backend, origin.store):
            raise BadHandle("foreign", "the handle is of another store; send it to the server that gave out the job")
        raise _corrupt()
    return lease


def _run_of(handle: str) -> Lease:
    lease = msgspec.json.decode(base64url.decode(handle.split(".")[3]), type=Lease)
    # Text that no id can have never reaches a statement.
    check_name("the id", lease.job_id)
    check_name("the worker", lease.worker)
    return lease


def _mac(key: bytes, text: str, holder: str) -> str:
    signed = f"{text}\0{holder}".encode()
    return base64url.encode(hashlib.blake2b(signed, key=key, digest_size=_MAC_BYTES, person=_PURPOSE).digest())


def _corrupt() -> BadHandle:
    return BadHandle(
        "corrupt",
        "that is no handle of a job that this caller has claimed; pass it back exactly as the claim gave it, with the "
        "token that claimed it",
    )


RELEASED = "released"


def stated(ending: remote.AnyEnding, limit: int = VALUE_LIMIT) -> Outcome | Failure:
    """Check a report. Attempts and policy of the job decide on a failure later. `limit` bounds the result."""
    match ending:
        case remote.Done(result):
            return Done(encode(result, what="the result", limit=limit))
        case remote.Retry(error, delay):
            after = None if delay is None else check_duration("delay", delay)
            return Failure(FailureClass.TRANSIENT, _text(error), after)
        case remote.TimedOut(error):
            return Failure(FailureClass.TIMEOUT, _text(error))
        case remote.Fail(error):
            return Failure(FailureClass.PERMANENT, _text(error))
        case remote.Throttle(retry_after, error, cool_queue):
            after = at_least(check_duration("retry_after", retry_after))
            return Failure(FailureClass.RATE_LIMITED, _text(error), after, cools=cool_queue)
        case remote.Park(error, reason):
            chosen = check_reason(check_name("the reason", reason))
            return Failure(FailureClass.AUTH_BLOCKED, _text(error), reason=chosen)
        case _:
            return _plain(ending)


def _plain(ending: remote.AnyEnding) -> Outcome:
    match ending:
        case remote.Snooze(delay):
            return Snoozed(at_least(check_duration("delay", delay)))
        case remote.Release():
            return Released(RELEASED)
        case remote.Cancel():
            return Cancelled("cancelled")
        case remote.Expire():
            return Expired()
        case _:
            raise InvalidInput(f"{type(ending).__name__} is no outcome; see holdfast.model.remote")


def decided(said: Outcome | Failure, job: Tried, policy: RetryPolicy, *, now: int, u: float) -> Outcome:
    """Return the outcome to store. `u` in [0, 1) is the caller's randomness."""
    return decide(said, job, policy, now=now, u=u) if isinstance(said, Failure) else said


def _text(error: Any) -> str:
    if not isinstance(error, remote.Problem):
        raise InvalidInput(f"the error must be a Problem, not {type(error).__name__}; say at least its message")
    return error_json(check_name("the error's type", error.type), error.message, error.traceback or None)
