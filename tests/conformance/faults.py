"""Break an operation at each of its statements in turn, as a killed process would, and see what is left of it.

    survive(world, flows.cancel_flow, flow_id, "cancel_all", actor="me")

runs the operation again and again, broken before its 1st statement, its 2nd, … and after its last, before the commit.
Each time the store must be as it was. The last time nothing breaks, and the answer is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from holdfast.storage.port import Files, Op, Params, Row, Tx, Value
from holdfast.storage.statements import Statement

from .world import World

T = TypeVar("T")

_TABLES = Statement(
    "tables",
    "select name from sqlite_master where type = 'table' and name like 'holdfast_%' order by 1",
    "select tablename from pg_tables where schemaname = current_schema() and tablename like 'holdfast_%' order by 1",
)
MOST_STATEMENTS = 500


class Broken(Exception):
    """The process died here."""


@dataclass
class Script:
    """How many statements may still run; what has run so far, by name."""

    left: int = MOST_STATEMENTS
    names: list[str] = field(default_factory=list)

    def note(self, statement: Statement) -> None:
        if self.left <= 0:
            raise Broken(f"before {statement.name}, after {self.names[-3:]}")
        self.left -= 1
        self.names.append(statement.name)

    def commit(self) -> None:
        if self.left <= 0:
            raise Broken("before the commit")


class ScriptedTx:
    """A transaction that breaks when its script is at an end. It may do so in the middle of a list."""

    def __init__(self, tx: Tx, script: Script) -> None:
        self._tx = tx
        self._script = script

    @property
    def files(self) -> Files | None:
        return self._tx.files

    async def one(self, statement: Statement, /, **params: Value) -> Row | None:
        self._script.note(statement)
        return await self._tx.one(statement, **params)

    async def all(self, statement: Statement, /, **params: Value) -> list[Row]:
        self._script.note(statement)
        return await self._tx.all(statement, **params)

    async def each(self, statement: Statement, rows: Sequence[Params], /, **common: Value) -> list[Row | None]:
        self._script.note(statement)
        if len(rows) > 1 and self._script.left == 0:
            await self._tx.each(statement, rows[: len(rows) // 2], **common)
            raise Broken(f"in the middle of {statement.name}")
        return await self._tx.each(statement, rows, **common)

    async def count(self, statement: Statement, names: tuple[str, ...], rows: Sequence[Row], /) -> int:
        self._script.note(statement)
        if len(rows) > 1 and self._script.left == 0:
            await self._tx.count(statement, names, rows[: len(rows) // 2])
            raise Broken(f"in the middle of {statement.name}")
        return await self._tx.count(statement, names, rows)

    async def copy(self, statement: Statement, rows: Sequence[Row], /) -> None:
        self._script.note(statement)
        await self._tx.copy(statement, rows)

    def notify(self, topic: str) -> None:
        self._tx.notify(topic)


def run_broken(world: World, after: int, op: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
    """Run an operation that breaks after so many statements, or does not if it has fewer."""
    script = Script(after)

    async def run(tx: Tx) -> T:
        answer = await op(ScriptedTx(tx, script), *args, **kwargs)
        script.commit()
        return answer

    return world.way(Op(run))


def survive(world: World, op: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> T:
    """Break an operation everywhere, each time to no effect; then let it through. Its answer."""
    before = everything(world)
    for after in range(MOST_STATEMENTS):
        try:
            answer = run_broken(world, after, op, *args, **kwargs)
        except Broken as broken:
            assert everything(world) == before, f"something was left behind by a break {broken}"
        else:
            assert after > 0, "an operation without a statement was not broken anywhere"
            return answer
    raise AssertionError(f"the operation has more than {MOST_STATEMENTS} statements")


def statements_of(world: World, op: Callable[..., Coroutine[Any, Any, T]], *args: Any, **kwargs: Any) -> list[str]:
    """Run an operation; the names of its statements, in order."""
    script = Script()
    world.way(Op(lambda tx: op(ScriptedTx(tx, script), *args, **kwargs)))
    return script.names


def everything(world: World) -> dict[str, list[Row]]:
    """Every row of every table of ours, in no particular order."""

    async def run(tx: Tx) -> dict[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for (table,) in await tx.all(_TABLES):
            text = f"select * from {table}"
            found[table] = sorted(await tx.all(Statement(table, text, text)), key=repr)
        return found

    return world.store.read(Op(run))
