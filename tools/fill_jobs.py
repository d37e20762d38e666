"""Fill a store with many jobs by one statement per table, for tests and benchmarks of large stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from holdfast.storage.job_fields import ENDED

_GIVEN: Final = ("task", "tenant", "payload", "tags", "max_attempts", "limits", "created_at", "flow", "member")
_LIVE: Final = (*ENDED, "due", "lane", "limits", "owner", "claim", "dedupe_held")
_DEFAULTS: Final = {
    "tenant": "''", "payload": "'{}'", "max_attempts": "5", "priority": "0", "attempts": "0", "past_attempts": "0",
    "generation": "0", "epoch": "0", "suspect": "0", "crashes": "0", "losses": "0", "linked": "0",
}  # fmt: skip


def inserts(columns: Mapping[str, str], source: str, *, ended: bool) -> tuple[str, str]:
    """Return the two inserts that store jobs: `columns` are SQL expressions over `source`, which follows `from`.

    A common table expression may stand before the columns' names: give it in `source` as `with … |rest`.
    """
    all_of_them = _DEFAULTS | dict(columns)
    place, fields = ("holdfast_ended", ENDED) if ended else ("holdfast_live", _LIVE)
    return (
        _insert("holdfast_job", [name for name in ("id", *_GIVEN) if name in all_of_them], all_of_them, source),
        _insert(place, [name for name in fields if name in all_of_them], all_of_them, source),
    )


def _insert(table: str, names: list[str], values: Mapping[str, str], source: str) -> str:
    before, _, rest = source.rpartition("|")
    chosen = ", ".join(values[name] for name in names)
    return f"insert into {table} ({', '.join(names)}) {before} select {chosen} from {rest}"
