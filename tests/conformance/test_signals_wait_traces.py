"""What can be seen of a wait, and what is left of it: nothing, once its job is gone."""

from __future__ import annotations

import re
from contextlib import closing

import pytest

from holdfast.clock import SECOND
from holdfast.model.signals import Wait
from holdfast.storage.ops.jobs import actions, explaining, retention
from holdfast.storage.statements import Statement, sql

from .waiting_kit import send, suspended, wait_for, waiter
from .world import World


@pytest.mark.parametrize(
    ("wait", "texts"),
    [
        (wait_for("approval"), ["waiting 5 s for signal 'approval'"]),
        (wait_for("a", "b", needed=0), ["waiting 5 s for one signal each of 'a', 'b'"]),
        (wait_for("vote", needed=3), ["waiting 5 s for 3 signals of 'vote'"]),
        (Wait(key="wait:x#1", reason="operator"), ["waiting 5 s for an operator"]),
        (
            wait_for("approval", timeout=60 * SECOND),
            ["waiting 5 s for signal 'approval'", "times out (fails) in 55 s"],
        ),
    ],
)
def test_what_a_suspended_job_waits_for_is_explained(each_store: World, wait: Wait, texts: list[str]) -> None:
    world = each_store
    job = suspended(world, wait)
    world.clock.advance(5)
    assert [reason.text for reason in world.read(explaining.explain, job.id).reasons] == texts


def test_the_place_that_a_suspended_job_waits_at_is_explained(each_store: World) -> None:
    world = each_store
    job = waiter(world)
    job.suspend(wait_for(waitpoints=(job.open("legal"),)))
    send(world, job.id, "gossip")
    texts = [reason.text for reason in world.read(explaining.explain, job.id).reasons]
    assert "signal 'legal'" in texts[0]
    assert texts[-1] == "1 signal in its mailbox does not end the wait"


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("next_wake", "holdfast_wait_timeout"),
        ("due_waits", "holdfast_wait_timeout"),
        ("unread_signals", "INDEX holdfast_signal_unread"),
        ("pending_waitpoints", "holdfast_waitpoint_open"),
    ],
)
def test_what_is_looked_for_again_and_again_is_found_by_an_index(on_sqlite: World, name: str, index: str) -> None:
    statement: Statement = getattr(sql, name)
    names = dict.fromkeys(re.findall(r"(?<!:):(\w+)", statement.sqlite))
    with closing(on_sqlite.connect()) as connection:
        plan = [row[3] for row in connection.execute(f"explain query plan {statement.sqlite}", names)]
    assert any(index in line for line in plan), plan


def test_nothing_of_a_pruned_job_is_left(each_store: World) -> None:
    world = each_store
    job = waiter(world)
    job.suspend(wait_for(waitpoints=(job.open(),), timeout=SECOND))
    send(world, job.id, "gossip")
    world.run(actions.cancel, job.id)
    world.clock.advance(3600)
    assert world.run(retention.prune_jobs, [job.id], SECOND) == 1
    for table in ("wait", "waitpoint", "signal", "step"):
        assert world.sql(f"select count(*) from holdfast_{table}") == [(0,)], table


def test_nothing_of_a_deleted_job_is_left(each_store: World) -> None:
    world = each_store
    job = suspended(world, wait_for("approval"))
    send(world, job.id, "gossip")
    world.run(actions.cancel, job.id)
    world.run(actions.delete, job.id)
    for table in ("wait", "waitpoint", "signal", "step"):
        assert world.sql(f"select count(*) from holdfast_{table}") == [(0,)], table
