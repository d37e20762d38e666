"""Whether a worker is alive and ready, for the probes of a container."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Condition:
    """`is_alive` is False if only a restart helps; `is_ready` is True while new jobs are started."""

    is_alive: bool
    is_ready: bool
    text: str = "ok"
    """What is wrong, in one sentence without names."""


STARTING = Condition(True, False, "the worker is starting")
STOPPING = Condition(True, False, "the worker is stopping")


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What a running worker is judged by. Durations are seconds."""

    lease: float
    claim_loop_silence: float
    """Since the claim loop last began a turn, which it does several times in a lease even without work."""
    has_broken: bool
    """True if a worker task has crashed."""
    is_worn_out: bool
    """True if too many threads hang."""
    lease_silence: float
    """Since the lease was last renewed."""
    is_fenced: bool
    store_is_away: bool


def condition_of(signs: Signs) -> Condition:
    """Judge a worker that runs. It cannot renew its lease without the store, and a restart would not help."""
    if signs.has_broken:
        return Condition(False, False, "an internal error ended a part of the worker; see its log")
    if signs.is_worn_out:
        return Condition(False, False, "too many threads hang in handlers that do not end")
    if signs.store_is_away:
        return Condition(True, False, "the store is unavailable")
    if signs.claim_loop_silence > signs.lease:
        return Condition(False, False, f"the claim loop has not turned for {signs.claim_loop_silence:.0f} s")
    if signs.lease_silence > signs.lease:
        return Condition(False, False, f"the lease was not renewed for {signs.lease_silence:.0f} s")
    if signs.is_fenced:
        return Condition(True, False, "the lease is about to end; nothing is started until it is renewed")
    return Condition(True, True)
