"""Schedules in a world: short ways to make them, fire them and look at what they made."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from holdfast.clock import SECOND
from holdfast.model.schedules import Firing, ScheduleKey, ScheduleRecord, ScheduleSpec
from holdfast.storage.ops.schedules import firing, schedules

from .world import World

HOUR = 3600 * SECOND
DAY = 24 * HOUR


def key(name: str = "nightly", tenant: str = "") -> ScheduleKey:
    return ScheduleKey(tenant, name)


def plan(name: str = "nightly", **fields: Any) -> ScheduleSpec:
    """A schedule that fires at every full hour, unless said otherwise."""
    known: dict[str, Any] = {
        "task": "work", "payload": "{}", "queue": "default", "options": '{"route": {"requires": []}}',
        "tick_argument": None, "expression": None if "every" in fields else "0 * * * *", "every": None, "zone": "UTC",
        "missed": "one", "max_missed": 100, "overlap": "allow", "jitter": 0, "cooldown": 0,
    }  # fmt: skip
    return ScheduleSpec(name=name, **{**known, **fields})


def create(world: World, name: str = "nightly", **fields: Any) -> ScheduleRecord:
    return world.run(schedules.create_schedule, plan(name, **fields))


def fire(world: World, name: str = "nightly", **options: Any) -> Firing:
    return world.run(firing.fire, key(name), **options)


def get(world: World, name: str = "nightly") -> ScheduleRecord:
    return world.read(schedules.get_schedule, key(name))


def due(world: World) -> list[str]:
    return [found.name for _, found in world.read(firing.due_schedules)[1]]


def ticks(world: World, name: str = "nightly") -> list[int]:
    return sorted(tick for tick, _ in world.read(schedules.ticks_of, key(name), 100_000))


def job_of(world: World, tick: int, name: str = "nightly") -> str:
    return dict(world.read(schedules.ticks_of, key(name), 100_000))[tick]


def set_clock(world: World, text: str) -> int:
    """Step the clock to an instant in UTC."""
    wanted = at(text)
    world.clock.step((wanted - world.now) / SECOND)
    return wanted


def at(text: str) -> int:
    instant = datetime.fromisoformat(text)
    instant = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return round(instant.timestamp()) * SECOND
