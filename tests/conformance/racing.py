"""Several callers at once, each on a connection of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any, TypeVar

from holdfast.model.jobs import Claimed
from holdfast.storage.ops.jobs import claims
from holdfast.storage.port import Op, Row
from holdfast.storage.statements import Statement
from tests.patience import SOON

from .world import World, begin, claim_request

T = TypeVar("T")


def all_at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Run each call in its own thread, started together; the answers in order."""
    gate = threading.Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        gate.wait(SOON)
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return [future.result(SOON) for future in [pool.submit(run, call) for call in calls]]


@contextmanager
def aside() -> Iterator[Callable[[Callable[[], T]], Future[T]]]:
    """Start calls in a thread beside this one."""
    with ThreadPoolExecutor(4) as pool:
        yield pool.submit


@contextmanager
def open_transaction(world: World, *, commit: bool = True) -> Iterator[Callable[[Op[Any]], Any]]:
    """A transaction of the caller's own that stays open in the block and ends with it."""
    with closing(world.connect()) as connection:
        begin(connection)
        try:
            yield lambda op: world.store.within(connection, op)
        except BaseException:
            connection.rollback()
            raise
        if commit:
            connection.commit()
        else:
            connection.rollback()


def await_blocked(world: World) -> None:
    """Return once somebody waits for a lock of this Postgres database."""
    with closing(world.connect()) as observer:
        for _ in range(6000):
            waiting = observer.execute(
                "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            ).fetchone()
            if waiting[0]:
                return
            observer.execute("select pg_stat_clear_snapshot(), pg_sleep(0.005)")
    raise AssertionError("nobody came to wait for a lock")


def claim_op(owner: str, n: int, **options: Any) -> Op[list[Claimed]]:
    request = claim_request(owner, n, **options)
    return Op(lambda tx: claims.claim(tx, request))


def setting_op(name: str, value: str = "off") -> Op[Row | None]:
    """Change a planner's setting of Postgres until the transaction ends."""
    text = f"set local {name} = {value}"
    return Op(lambda tx: tx.one(Statement("set", text, text)))
