"""The capabilities of an app's store: `app.capabilities()`."""

from __future__ import annotations

import platform

from ..model.store import Capabilities
from ..rules.store import LIMITS, supports
from ..storage.ops.store import applied_migrations
from ..storage.port import Op, Store
from ..version import VERSION


def capabilities_of(store: Store) -> Capabilities:
    """Return what a store supports, its version and its limits."""
    facts = store.describe()
    applied = store.read(Op(applied_migrations))
    return Capabilities(
        backend=store.backend,
        version=str(facts.get("sqlite_version") or facts.get("server_version")),
        driver=str(facts.get("driver") or f"sqlite3 of Python {platform.python_version()}"),
        schema=max((migration.version for migration in applied), default=0),
        holdfast=VERSION,
        supports=supports(facts, on_disk="wal" in str(facts.get("journal_mode", "")), artifacts=store.blobs.kind),
        limits=dict(LIMITS),
    )
