"""A store whose transactions break in the middle, as a lock, a full disk or a killed process breaks them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from holdfast.storage.port import Op, Params, Row, Tx, Value
from holdfast.storage.statements import Statement

T = TypeVar("T")

Before: TypeAlias = "Callable[[Statement, Sequence[Params]], None]"


class FaultyTx:
    """Asks before each statement whether it may run; `before` raises to break the transaction there."""

    def __init__(self, tx: Tx, before: Before) -> None:
        self._tx = tx
        self._before = before

    async def one(self, statement: Statement, /, **params: Value) -> Row | None:
        self._before(statement, [params])
        return await self._tx.one(statement, **params)

    async def all(self, statement: Statement, /, **params: Value) -> list[Row]:
        self._before(statement, [params])
        return await self._tx.all(statement, **params)

    async def each(self, statement: Statement, rows: Sequence[Params], /, **common: Value) -> list[Row | None]:
        self._before(statement, rows)
        return await self._tx.each(statement, rows, **common)

    def notify(self, topic: str) -> None:
        self._tx.notify(topic)


class FaultyStore:
    """A store whose awaited writes may break at any statement, or after the last one and before the commit."""

    def __init__(self, store: Any, before: Before, at_end: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._before = before
        self._at_end = at_end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def awrite(self, op: Op[T]) -> T:
        async def run(tx: Tx) -> T:
            answer = await op.run(FaultyTx(tx, self._before))
            self._at_end()
            return answer

        answer: T = await self._store.awrite(Op(run))
        return answer
