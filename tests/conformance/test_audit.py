"""The audit: what operators did, in the same commit as the deed."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.clock import SECOND
from holdfast.errors import InvalidInput
from holdfast.model.audit import AuditFilter
from holdfast.storage.ops.audit import audit, list_audit
from holdfast.storage.port import Tx

from .world import World


def record(world: World, action: str = "queue.pause", target: str = "mail", **fields: Any) -> None:
    world.run(audit, **{"actor": "ada", "action": action, "target": target, **fields})


def found(world: World, **wanted: Any) -> list[str]:
    return [item.target for item in world.run(list_audit, AuditFilter(**wanted))]


def test_a_record_says_who_did_what_to_which_why_and_when(world: World) -> None:
    record(world, reason="too loud", before={"state": "active"}, after=["ü", 1])
    (item,) = world.run(list_audit, AuditFilter())
    assert (item.actor, item.action, item.target_kind, item.target) == ("ada", "queue.pause", "queue", "mail")
    assert (item.reason, item.at) == ("too loud", world.instant)
    assert (item.before, item.after) == ({"state": "active"}, ["ü", 1])


def test_somebody_without_a_name_is_unknown(world: World) -> None:
    record(world, actor="")
    assert world.run(list_audit, AuditFilter())[0].actor == "unknown"


def test_records_come_newest_first_and_by_page(world: World) -> None:
    for target in "abcde":
        record(world, target=target)
    page = world.run(list_audit, AuditFilter(limit=2))
    assert [item.target for item in page] == ["e", "d"]
    assert found(world, before=page[-1].id, limit=2) == ["c", "b"]


def test_each_filter_narrows_the_list(world: World) -> None:
    record(world, target="a")
    record(world, target="b", actor="bob")
    world.clock.advance(10)
    record(world, "job.retry", target="c")
    assert found(world, actor="bob") == ["b"]
    assert found(world, action="job.retry") == ["c"]
    assert found(world, target_kind="queue") == ["b", "a"]
    assert found(world, target_kind="queue", target="a") == ["a"]
    assert found(world, target_kind="queue", target="a", actor="bob") == []
    assert found(world, since=world.now) == ["c"]
    assert found(world, until=world.now) == ["b", "a"]
    assert found(world, target_kind="queue", target="b", since=world.now - 10 * SECOND) == ["b"]


def test_a_target_needs_its_kind(world: World) -> None:
    with pytest.raises(InvalidInput):
        found(world, target="a")


def test_a_deed_that_fails_leaves_no_record(world: World) -> None:
    async def fail(tx: Tx) -> None:
        await audit(tx, actor="ada", action="queue.pause", target="mail")
        raise LookupError

    with pytest.raises(LookupError):
        world.run(fail)
    assert found(world) == []
