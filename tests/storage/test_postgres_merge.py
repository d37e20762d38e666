"""Lists of one kind, merged into one statement."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.storage.port import ListOp, Op, Tx
from holdfast.storage.postgres import PostgresStore
from tests.storage import kit


def test_each_answers_in_order_with_none_where_nothing_matched(store: PostgresStore) -> None:
    store.write(kit.insert("b"))
    assert store.write_list(kit.insert_list(["c", "b", "a"])) == [True, False, True]
    assert store.write_list(kit.insert_list([])) == []


def test_rows_with_different_names_are_refused(store: PostgresStore) -> None:
    with pytest.raises(ValueError, match="one set of names"):
        store.write(Op(lambda tx: tx.each(kit.INSERT_EACH, [{"name": "a"}, {"other": "b"}])))


def test_threads_and_tasks_merge_their_lists(store: PostgresStore) -> None:
    def work(thread: int) -> list[bool]:
        return [ok for n in range(20) for ok in store.write_list(kit.insert_list([f"t{thread}-{n}"]))]

    async def tasks() -> list[list[bool]]:
        return await asyncio.gather(*(store.awrite_list(kit.insert_list([f"a{n}", f"b{n}"])) for n in range(100)))

    with ThreadPoolExecutor(8) as threads:
        assert all(all(part) for part in threads.map(work, range(8)))
    assert asyncio.run(tasks()) == [[True, True]] * 100
    assert len(store.read(kit.names())) == 160 + 200


def test_merged_lists_share_a_call(store: PostgresStore) -> None:
    sizes: list[int] = []

    async def counted(tx: Tx, items: object) -> list[bool]:
        assert isinstance(items, list)
        sizes.append(len(items))
        return await kit.insert_each(tx, items)

    async def tasks() -> None:
        await asyncio.gather(*(store.awrite_list(ListOp(counted, [f"n{n}"])) for n in range(50)))

    asyncio.run(tasks())
    assert sizes == [50]


def test_a_failing_list_fails_alone(store: PostgresStore) -> None:
    async def tasks() -> list[object]:
        lists = [["a"], ["bad"], ["b", "c"]]
        return await asyncio.gather(
            *(store.awrite_list(kit.insert_list(items)) for items in lists), return_exceptions=True
        )

    first, second, third = asyncio.run(tasks())
    assert (first, third) == ([True], [True, True])
    assert isinstance(second, LookupError)
    assert store.read(kit.names()) == ["a", "b", "c"]
