"""Limits: what a job asks of them, and how they stand."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


class JobLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one job is subject to, besides the limits of its task and queue."""

    key: str | None = None
    """The lane of its concurrency key."""
    capacity: int | None = None
    rate: str | None = None
    """The scope of its token bucket."""

    def encode(self) -> str:
        return _ENCODER.encode(self).decode()

    @staticmethod
    def decode(text: str) -> JobLimits:
        return _DECODER.decode(text)


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(JobLimits)


class Lane(msgspec.Struct, frozen=True):
    """One concurrency limit and how many jobs count in it."""

    key: str
    standing: bool
    capacity: int | None
    running: int
    origin: str = "code"


@dataclass(frozen=True, slots=True)
class Bucket:
    """One rate: up to `capacity` at once, `refill` per second."""

    scope: str
    capacity: float
    refill: float
    tokens: float
    origin: str


@dataclass(frozen=True, slots=True)
class Standing:
    """The limits that apply to jobs without being named by them, as a worker last saw them."""

    lanes: frozenset[str] = frozenset()
    scopes: tuple[str, ...] = ()
    cooled: frozenset[str] = frozenset()
    """Queues that were throttled and have not recovered yet."""


def task_lane(task: str) -> str:
    return f"task:{task}"


def queue_lane(queue: str) -> str:
    return f"queue:{queue}"


def key_lane(tenant: str, key: str) -> str:
    return f"key:{tenant}:{key}"


def fair_lane(queue: str, tenant: str, key: str) -> str:
    return f"fair:{queue}:{tenant}:{key}"


def rate_lane(scope: str) -> str:
    """Where jobs wait for a token of that scope."""
    return f"rate:{scope}"
