"""A small table and statements of its own, so that the stores are tested apart from the operations."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence

from holdfast.storage.port import ListOp, Op, Row, Tx
from holdfast.storage.statements import Statement

# Returns when they have ended.
END_OTHERS = """select pg_terminate_backend(pid, 10000) from pg_stat_activity
                 where datname = current_database() and pid <> pg_backend_pid()"""
TABLE = "create table note (name text not null primary key, at bigint)"

INSERT = Statement(
    "insert_note",
    "insert into note (name, at) values (:name, :now) returning name, at",
    "insert into note (name, at) values (:name, :now) returning name, at",
)
INSERT_EACH = Statement(
    "insert_notes",
    "insert into note (name, at) values (:name, :now) on conflict do nothing returning name",
    """with item as (select * from unnest(:name::text[]) with ordinality as i(name, n)),
            fresh as (insert into note (name, at) select name, :now from item on conflict do nothing returning name)
       select item.n, fresh.name from fresh join item using (name)""",
)
NAMES = Statement("note_names", "select name from note order by name", "select name from note order by name")
DIVIDE = Statement("divide", "select abs(-9223372036854775807 - 1)", "select 1 / 0")
NOW = Statement("now", "select :now", "select :now")


def insert(name: str, *, single: bool = False, topic: str = "queue:a") -> Op[Row | None]:
    async def run(tx: Tx) -> Row | None:
        tx.notify(topic)
        return await tx.one(INSERT, name=name)

    return Op(run, single=single)


def insert_then_fail(name: str) -> Op[None]:
    async def run(tx: Tx) -> None:
        await tx.one(INSERT, name=name)
        raise LookupError(name)

    return Op(run)


def insert_then_divide_by_zero(name: str) -> Op[None]:
    async def run(tx: Tx) -> None:
        tx.notify("queue:a")
        await tx.one(INSERT, name=name)
        await tx.one(DIVIDE)

    return Op(run)


def names() -> Op[list[str]]:
    async def run(tx: Tx) -> list[str]:
        return [name for (name,) in await tx.all(NAMES)]

    return Op(run, single=True)


def insert_list(items: Sequence[str]) -> ListOp[str, bool]:
    return ListOp(insert_each, items)


async def insert_each(tx: Tx, items: Sequence[str]) -> list[bool]:
    """Answers per item; the whole call fails where an item is "bad"."""
    if "bad" in items:
        raise LookupError("bad")
    tx.notify("queue:a")
    return [row is not None for row in await tx.each(INSERT_EACH, [{"name": item} for item in items])]


def run_python(program: str) -> str:
    """Run a program in a process of its own; what it printed."""
    # Forking beside threads is what one of these programs is about.
    warnings = "error,ignore:This process:DeprecationWarning"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": warnings}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
