"""Derive a store's capabilities from the facts that it reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..model.artifacts import INLINE
from ..model.signals import MAX_SIGNALS, MAX_WAITPOINTS
from ..model.streams import FRAME_LIMIT, MAX_FRAMES, MAX_STREAM_BYTES
from ..names import CAPABILITIES_BYTES, MAX_ATTEMPTS, MAX_TAGS, NAME_BYTES, TAG_BYTES
from ..values.codec import MAX_DEPTH, PAYLOAD_LIMIT, VALUE_LIMIT
from .flows import MAX_DEPTH as MAX_FLOW_DEPTH
from .flows import MAX_MEMBERS
from .lifecycle import MAX_GENERATION
from .steps import MOST_CALLS

LIMITS: Final[Mapping[str, int]] = {
    "payload": VALUE_LIMIT,
    "result": VALUE_LIMIT,
    "json_depth": MAX_DEPTH,
    "name": NAME_BYTES,
    "tag": TAG_BYTES,
    "tags": MAX_TAGS,
    "attempts": MAX_ATTEMPTS,
    "retries": MAX_GENERATION,
    "flow_members": MAX_MEMBERS,
    "flow_depth": MAX_FLOW_DEPTH,
    "durable_calls": MOST_CALLS,
    "signal": VALUE_LIMIT,
    "signals": MAX_SIGNALS,
    "waitpoints": MAX_WAITPOINTS,
    "artifact_in_row": INLINE,
    "frame": FRAME_LIMIT,
    "stream_frames": MAX_FRAMES,
    "stream": MAX_STREAM_BYTES,
    "summary": PAYLOAD_LIMIT,
    "capabilities": CAPABILITIES_BYTES,
}


def supports(facts: Mapping[str, object], *, on_disk: bool, artifacts: str) -> dict[str, bool | str]:
    """Return for each feature if or how it is supported. `facts` are those of a store's `describe`."""
    if facts["backend"] == "sqlite":
        return {
            "many_processes": on_disk,
            "many_hosts": False,
            "isolated_tasks": on_disk,
            "survives_power_loss": on_disk and facts["synchronous"] in ("full", "extra"),
            "wake_ups": "the write-ahead log" if on_disk else "within the process",
            "own_transactions": "sqlite3, aiosqlite, SQLAlchemy, Django",
            "artifacts": artifacts,
        }
    return {
        "many_processes": True,
        "many_hosts": True,
        "isolated_tasks": True,
        "survives_power_loss": facts["fsync"] == "on" and facts["synchronous_commit"] != "off",
        "wake_ups": "LISTEN and NOTIFY" if facts["notify"] else "polling",
        "own_transactions": "psycopg, asyncpg, SQLAlchemy, Django",
        "artifacts": artifacts,
    }
