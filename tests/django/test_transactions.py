"""An enqueue is part of the transaction that `atomic()` has open on the jobs' database."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.db import connections, transaction
from django.test import override_settings

from holdfast import Job
from holdfast.contrib.django.project import DjangoApp
from holdfast.errors import ConfigError, DuplicateJob, NotFound, StorageBusy
from holdfast.tasks.task import Task
from tests.django.conftest import Project, add_database, in_sqlite, remove_database
from tests.patience import SOON


class Undone(Exception):
    pass


@pytest.fixture
def receipt(project: Project) -> Task[..., Any]:
    @project.app.task
    def receipt(order: int) -> int:
        return order

    return receipt


def exists(project: Project, job: Job[Any]) -> bool:
    """Whether others see a job, on a connection of the store's own."""
    try:
        return bool(project.app.jobs.get(job.id))
    except NotFound:
        return False


def roll_back(project: Project, act: Callable[[], Any]) -> Any:
    try:
        with transaction.atomic(using=project.alias):
            done = act()
            raise Undone
    except Undone:
        return done


def test_a_job_is_committed_with_the_rows_of_its_block(project: Project, receipt: Task[..., Any]) -> None:
    with transaction.atomic(using=project.alias):
        Group.objects.using(project.alias).create(name=f"with {receipt.name}")
        job = receipt.enqueue(1)
        assert not exists(project, job)
    assert exists(project, job)
    Group.objects.using(project.alias).all().delete()


def test_a_block_that_rolls_back_leaves_no_job(project: Project, receipt: Task[..., Any]) -> None:
    assert not exists(project, roll_back(project, lambda: receipt.enqueue(1)))


def test_outside_of_a_block_it_is_committed_at_once(project: Project, receipt: Task[..., Any]) -> None:
    assert exists(project, receipt.enqueue(1))


def test_a_rolled_back_savepoint_takes_only_its_own_job(project: Project, receipt: Task[..., Any]) -> None:
    with transaction.atomic(using=project.alias):
        outer = receipt.enqueue(1)
        inner = roll_back(project, lambda: receipt.enqueue(2))
        last = receipt.enqueue(3)
    assert [exists(project, job) for job in (outer, inner, last)] == [True, False, True]


def test_with_autocommit_off_it_is_part_of_the_open_transaction(project: Project, receipt: Task[..., Any]) -> None:
    transaction.set_autocommit(False, using=project.alias)
    undone = receipt.enqueue(1)
    transaction.rollback(using=project.alias)
    kept = receipt.enqueue(2)
    assert not exists(project, kept)
    transaction.commit(using=project.alias)
    transaction.set_autocommit(True, using=project.alias)
    assert [exists(project, job) for job in (undone, kept)] == [False, True]


def test_a_refused_enqueue_leaves_the_block_usable(project: Project, receipt: Task[..., Any]) -> None:
    once = receipt.options(dedupe_key="once", on_duplicate="raise")
    with transaction.atomic(using=project.alias):
        once.enqueue(1)
        with pytest.raises(DuplicateJob):
            once.enqueue(2)
        job = receipt.enqueue(3)
    assert exists(project, job)


def test_bulk_flows_and_signals_join_too(project: Project, receipt: Task[..., Any]) -> None:
    def act() -> list[Job[Any]]:
        many = project.app.enqueue_many([receipt.job(n) for n in range(3)])
        with project.app.flow("after sales") as flow:
            member = flow.add(receipt.job(4))
        return [*many, project.app.job(member.id)]

    assert [exists(project, job) for job in roll_back(project, act)] == [False] * 4
    with transaction.atomic(using=project.alias):
        jobs = act()
    assert [exists(project, job) for job in jobs] == [True] * 4


def test_workers_are_woken_after_the_commit_and_not_before(project: Project, receipt: Task[..., Any]) -> None:
    listener = project.app.open().wakeups.listen(["queue:default"])
    with transaction.atomic(using=project.alias):
        receipt.enqueue(1)
        while listener.wait(0):  # of an earlier test
            pass
    assert listener.wait(SOON)
    listener.close()


def test_a_transaction_of_another_database_is_refused(project: Project, receipt: Task[..., Any]) -> None:
    with transaction.atomic(using=project.other), pytest.raises(ConfigError, match="would not undo the enqueue"):
        receipt.enqueue(1)


def test_within_none_commits_on_its_own_beside_another_database(project: Project, receipt: Task[..., Any]) -> None:
    with transaction.atomic(using=project.other), project.app.within(None):
        job = receipt.enqueue(1)
        assert exists(project, job)


def test_both_databases_in_a_transaction_join_that_of_the_jobs(project: Project, receipt: Task[..., Any]) -> None:
    with transaction.atomic(using=project.other):
        job = roll_back(project, lambda: receipt.enqueue(1))
    assert not exists(project, job)


def test_the_connection_of_another_database_is_refused(project: Project, receipt: Task[..., Any]) -> None:
    with (
        transaction.atomic(using=project.other),
        pytest.raises(ConfigError, match=f"connection= is the database '{project.other}', and jobs are in"),
    ):
        receipt.options(connection=connections[project.other]).enqueue(1)


def test_the_connection_of_the_jobs_can_be_named(project: Project, receipt: Task[..., Any]) -> None:
    named = receipt.options(connection=connections[project.alias])
    assert not exists(project, roll_back(project, lambda: named.enqueue(1)))


def test_a_deferred_transaction_that_another_writer_overtook_says_how_blocks_wait(
    tmp_path: Path,
) -> None:
    deferred = {**in_sqlite(tmp_path / "deferred.db"), "OPTIONS": {}}
    add_database("deferred", deferred)
    with override_settings(HOLDFAST={"DATABASE": "deferred"}):
        call_command("migrate", database="deferred", verbosity=0)
        app = DjangoApp()
        task = app.task(name="work")(lambda: None)
        other = threading.Thread(target=task.enqueue)
        with transaction.atomic(using="deferred"):
            assert not Group.objects.using("deferred").exists()
            other.start()
            other.join()
            with pytest.raises(StorageBusy, match='repeat the whole atomic.. block, and set OPTIONS to {"transaction_'):
                task.enqueue()
        app.close()
    remove_database("deferred")


# -- async code


def test_async_code_commits_at_once(project: Project, receipt: Task[..., Any]) -> None:
    assert exists(project, asyncio.run(receipt.aenqueue(1)))


def test_sync_code_that_async_code_calls_joins_its_own_block(project: Project, receipt: Task[..., Any]) -> None:
    async def view() -> Job[Any]:
        try:
            return await sync_to_async(lambda: roll_back(project, lambda: receipt.enqueue(1)))()
        finally:
            await sync_to_async(connections.close_all)()

    assert not exists(project, asyncio.run(view()))


def test_async_code_joins_the_block_of_the_sync_code_that_called_it(project: Project, receipt: Task[..., Any]) -> None:
    enqueue = async_to_sync(receipt.aenqueue)
    assert not exists(project, roll_back(project, lambda: enqueue(1)))
    with transaction.atomic(using=project.alias):
        job = enqueue(2)
    assert exists(project, job)
    assert exists(project, enqueue(3))


def test_async_code_may_pass_the_connection_of_its_sync_caller(project: Project, receipt: Task[..., Any]) -> None:
    named = receipt.options(connection=connections[project.alias])
    assert not exists(project, roll_back(project, lambda: async_to_sync(named.aenqueue)(1)))
