"""Named SQL from the `.sql` files beside this module.

A file holds statements, each opened by `-- name: verb_noun`. A statement lives in `common/`, or in both dialect
folders with a comment that says why they differ. The loader rewrites `:name` to the driver's style and expands a few
words: `:now`, `@wanted`, on SQLite `from @rows`, and the column lists of `job_fields`. Nothing else is assembled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import resources
from typing import Final

from . import job_fields

_HEADER = re.compile(r"^-- name: (\w+)[ \t]*$", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*--(?! then:).*$\n?", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_WANTED = re.compile(r"@wanted\((\w+)\)")
_ROWS = re.compile(r"\s+from @rows")
_THEN = re.compile(r"^-- then:.*$\n?", re.MULTILINE)
# Conditions of a job filter beyond those that a statement's index answers. A missing filter is null; the cast gives
# Postgres its type. The null is checked first: SQLite then reads a row only for the columns that matter. A place is
# named `live` or `ended`; what it lacks is looked up in the job.
_FILTER: Final = """(cast(:state as text) is null or {0}.state = :state)
   and (cast(:label as text) is null or {due} = 0 and {0}.not_before > :now and :label = case
        when {0}.reason in ('retry', 'rescue') then 'retrying'
        when {0}.reason = 'throttle' then 'throttled' else 'delayed' end)
   and (cast(:queue as text) is null or {0}.queue = :queue)
   and (cast(:task as text) is null or {0}.task = :task)
   and (cast(:tenant as text) is null or {0}.tenant = :tenant)
   and (cast(:reason as text) is null or {reason} = :reason)
   and (cast(:flow as text) is null or {0}.flow = :flow)
   and (cast(:worker as text) is null or {owner} = :worker)
   and (cast(:created_after as bigint) is null or {created_at} >= :created_after)
   and (cast(:created_before as bigint) is null or {created_at} < :created_before)
   and (cast(:finished_after as bigint) is null or {0}.finished_at >= :finished_after)
   and (cast(:finished_before as bigint) is null or {0}.finished_at < :finished_before)
   and (cast(:older_than as bigint) is null or {0}.finished_at <= :now - :older_than)"""
_SERVER_CLOCK: Final = "(extract(epoch from statement_timestamp()) * 1000000)::bigint"


@dataclass(frozen=True, eq=False)
class Statement:
    """One named statement, with its text for each database and driver."""

    name: str
    sqlite: str
    postgres: str
    sqlite_rows: str = ""
    """Its text for SQLite with `from @rows` in it, where it may be run for many rows at once."""
    then: Statement | None = None
    """On SQLite, whose statements change one table each: what is run after it, if it found a row. A list of the first
    columns of its rows is bound as `:ids`."""

    @cached_property
    def only_reads(self) -> bool:
        """Return whether it changes and locks nothing."""
        effects = ("set_config", "holdfast_lock", "for update", "for key share")
        return self.postgres.startswith("select ") and not any(effect in self.postgres for effect in effects)

    @cached_property
    def takes_items(self) -> bool:
        """Return whether its text for Postgres takes a list as one JSON document."""
        return ":items" in self.postgres

    @cached_property
    def sqlite_takes_items(self) -> bool:
        """Return whether its text for SQLite takes a list as one JSON document."""
        return ":items" in self.sqlite

    @cached_property
    def psycopg(self) -> str:
        """Return its text for psycopg; `:now` is the server's clock."""
        return _pyformat(self.postgres, _SERVER_CLOCK)

    @cached_property
    def psycopg_clocked(self) -> str:
        """Return its text for psycopg with `:now` as a parameter, for tests with their own clock."""
        return _pyformat(self.postgres, "%(now)s::bigint")

    @cached_property
    def asyncpg(self) -> tuple[str, tuple[str, ...]]:
        """Return its text with `$1` and the parameters' names in that order; `:now` is the server's clock."""
        return _numbered(_PARAMETER.sub(_server_clock, self.postgres))

    @cached_property
    def asyncpg_clocked(self) -> tuple[str, tuple[str, ...]]:
        return _numbered(self.postgres.replace(":now", ":now::bigint"))


class Statements:
    """Every statement as an attribute: `sql.claim_jobs`."""

    def __init__(self) -> None:
        common, sqlite, postgres = _folder("common"), _folder("sqlite"), _folder("postgres")
        if mismatch := (set(sqlite) ^ set(postgres)) | (set(common) & set(sqlite)):
            raise RuntimeError(f"statements must be in common, or in both dialects: {sorted(mismatch)}")
        self._all = {name: Statement(name, text, text) for name, text in common.items()}
        for name, text in sqlite.items():
            first, *rest = _THEN.split(text)
            then = _sqlite(name, rest[0], "") if rest else None
            self._all[name] = _sqlite(name, first, postgres[name], then)
        # Set as attributes, which are found without a call.
        self.__dict__.update(self._all)

    def __getattr__(self, name: str) -> Statement:
        raise AttributeError(f"no statement {name!r} in the .sql files")

    def __iter__(self) -> Iterator[Statement]:
        return iter(self._all.values())


def parse(text: str) -> dict[str, str]:
    """Return the statements of one `.sql` file by name, comments removed and column lists in full."""
    pieces = _HEADER.split(text)
    names, bodies = pieces[1::2], pieces[2::2]
    if len(set(names)) != len(names):
        raise RuntimeError(f"a statement is named twice: {names}")
    return {name: _expand(body) for name, body in zip(names, bodies, strict=True)}


def _sqlite(name: str, text: str, postgres: str, then: Statement | None = None) -> Statement:
    text = text.strip().removesuffix(";")
    alone = _ROWS.sub("", text)
    return Statement(name, alone, postgres, text if alone != text else "", then)


def _expand(body: str) -> str:
    body = _COMMENT.sub("", body).strip().removesuffix(";")
    return job_fields.expand(_WANTED.sub(lambda m: _filter(m[1]), body))


def _filter(alias: str) -> str:
    due, owner = (f"{alias}.due", f"{alias}.owner") if alias != "ended" else ("null", "null")
    reason = "case when live.owner is null then live.reason end" if alias == "live" else f"{alias}.reason"
    created_at = f"{alias}.created_at"
    if alias in ("live", "ended"):
        created_at = f"(select given.created_at from holdfast_job as given where given.id = {alias}.id)"  # noqa: S608 - our own names
    return _FILTER.format(alias, due=due, owner=owner, reason=reason, created_at=created_at)


def _folder(name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in resources.files("holdfast.storage").joinpath("sql", name).iterdir():
        if file.name.endswith(".sql"):
            new = parse(file.read_text("utf-8"))
            if twice := found.keys() & new.keys():
                raise RuntimeError(f"statements named twice in sql/{name}: {sorted(twice)}")
            found |= new
    return found


def _pyformat(text: str, now: str) -> str:
    return _PARAMETER.sub(lambda m: now if m[1] == "now" else f"%({m[1]})s", text.replace("%", "%%"))


@lru_cache(maxsize=1_000)
def sqlite_for(statement: Statement, count: int, shared: tuple[str, ...], own: tuple[str, ...]) -> str:
    """Return a statement for that many rows on SQLite: first the values that they share, then those of each."""
    places = {name: f"?{at}" for at, name in enumerate(shared, 1)}
    places |= {name: f"each.column{at}" for at, name in enumerate(own, 1)}
    text = _PARAMETER.sub(lambda m: places[m[1]], statement.sqlite_rows or statement.sqlite)
    if not own:
        return _ROWS.sub("", text)
    first, step = len(shared) + 1, len(own)
    rows = [", ".join(f"?{first + row * step + at}" for at in range(step)) for row in range(count)]
    return _ROWS.sub(f"\n  from (values ({'), ('.join(rows)})) as each", text)


def _server_clock(match: re.Match[str]) -> str:
    return _SERVER_CLOCK if match[1] == "now" else match[0]


def _numbered(text: str) -> tuple[str, tuple[str, ...]]:
    order: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in order:
            order.append(match[1])
        return f"${order.index(match[1]) + 1}"

    return _PARAMETER.sub(number, text), tuple(order)


sql: Final = Statements()
