"""Statements and operations for the tests of the SQLite store, on a table of their own."""

from __future__ import annotations

from holdfast.storage.port import Op, Tx
from holdfast.storage.sqlite import SqliteStore
from holdfast.storage.statements import Statement

CREATE = Statement("create", "create table note (id integer primary key, text text not null unique, at integer)", "")
INSERT = Statement("insert", "insert into note (text, at) values (:text, :now) returning id, at", "")
SELECT = Statement("select", "select text from note order by id", "")
COUNT = Statement("count", "select count(*) from note", "")
SLOW = Statement(
    "slow", "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300000) select max(i) from n", ""
)


def prepare(store: SqliteStore) -> SqliteStore:
    async def create(tx: Tx) -> None:
        await tx.one(CREATE)

    store.write(Op(create))
    return store


def add(*texts: str, topic: str | None = None, single: bool = False) -> Op[int]:
    """Insert each text; the id of the last."""

    async def run(tx: Tx) -> int:
        rows = await tx.each(INSERT, [{"text": text} for text in texts])
        if topic is not None:
            tx.notify(topic)
        last = rows[-1]
        assert last is not None
        return int(last[0])

    return Op(run, single=single)


async def _texts(tx: Tx) -> list[str]:
    return [text for (text,) in await tx.all(SELECT)]


async def _slowly(tx: Tx) -> int:
    row = await tx.one(SLOW)
    return int(row[0]) if row else 0


TEXTS: Op[list[str]] = Op(_texts, single=True)
SLOWLY: Op[int] = Op(_slowly)
