"""Artifacts in the store: added by the run that owns the job, found by name, gone with the job, and never their bytes
before them."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from holdfast.errors import DuplicateArtifact, LeaseLost, NotFound, StorageError
from holdfast.ids import ids
from holdfast.model.actions import Action, Order
from holdfast.model.artifacts import Artifact, Content
from holdfast.model.jobs import Claimed, JobState
from holdfast.model.outcomes import Done, Failed
from holdfast.model.steps import Step
from holdfast.rules.steps import key_of
from holdfast.storage.ops import steps
from holdfast.storage.ops.artifacts import artifacts, blobs
from holdfast.storage.ops.jobs import actions, retention
from holdfast.storage.ops.store import verify
from holdfast.storage.port import Op

from .racing import all_at_once
from .world import ERROR, World


def running(world: World, **fields: object) -> tuple[str, Claimed]:
    owner = world.worker()
    world.add(**fields)
    return owner, world.take(owner)


def entry(name: str) -> Step:
    return Step(key=key_of("artifact", name, 1), kind="artifact", name=name, called="", position=1)


def content(data: bytes, blob: str | None = None, name: str = "a") -> Content:
    digest = hashlib.sha256(data).hexdigest()
    return Content(name, "text/plain", len(data), digest, data=None if blob else data, blob=blob)


def add(world: World, owner: str, job: Claimed, name: str, what: Content, step: Step | None = None) -> bool:
    named = replace(what, name=name)
    _, is_new = world.run(artifacts.add, owner, job.id, job.epoch, step or entry(name), named)
    return is_new


def add_small(world: World, owner: str, job: Claimed, name: str = "a.txt", data: bytes = b"hello") -> bool:
    return add(world, owner, job, name, content(data))


def begin_blob(world: World, owner: str, job: Claimed) -> str:
    blob = ids.new()
    world.run(blobs.begin, owner, job.id, job.epoch, blob)
    return blob


def add_large(world: World, owner: str, job: Claimed, name: str = "big.bin") -> str:
    blob = begin_blob(world, owner, job)
    add(world, owner, job, name, content(b"large", blob))
    return blob


def names(world: World, job_id: str) -> list[str]:
    return [artifact.name for artifact in world.read(artifacts.list_, job_id)]


def state_of(world: World, blob: str) -> tuple[str, int]:
    rows = world.sql("select state, refs from holdfast_blob where id = :id", id=blob)
    return rows[0] if rows else ("gone", 0)


def sound(world: World) -> bool:
    return [found.rule for found in world.read(verify, frozenset()) if found.broken_by] == []


# -- adding and finding


def test_an_artifact_is_found_with_its_type_size_and_hash(world: World) -> None:
    owner, job = running(world)
    assert add_small(world, owner, job)
    (found,) = world.read(artifacts.list_, job.id)
    digest = hashlib.sha256(b"hello").hexdigest()
    assert found == Artifact(job.id, "a.txt", "text/plain", 5, digest, world.instant)
    assert world.read(artifacts.get, job.id, "a.txt") == found
    stored = world.read(artifacts.locate, job.id, "a.txt")
    assert (stored.artifact, stored.data, stored.blob) == (found, b"hello", None)
    assert artifacts.stored_as(world.read(steps.read_journal, job.id).steps[0]) == found


def test_an_artifact_of_no_bytes_is_one_all_the_same(world: World) -> None:
    owner, job = running(world)
    add_small(world, owner, job, data=b"")
    assert world.read(artifacts.locate, job.id, "a.txt").data == b""


def test_names_are_unique_in_a_job_and_free_in_another(world: World) -> None:
    owner, job = running(world)
    add_small(world, owner, job)
    with pytest.raises(DuplicateArtifact) as refused:
        add(world, owner, job, "a.txt", content(b"other"), entry("elsewhere"))
    assert (refused.value.job_id, refused.value.name) == (job.id, "a.txt")
    assert world.read(artifacts.locate, job.id, "a.txt").data == b"hello"
    # Nothing of the refused call is left, not even its entry in the journal.
    assert [step.name for step in world.read(steps.read_journal, job.id).steps] == ["a.txt"]
    other_owner, other = running(world)
    assert add_small(world, other_owner, other)


def test_the_same_call_again_is_answered_and_changes_nothing(world: World) -> None:
    owner, job = running(world)
    add_small(world, owner, job)
    assert add_small(world, owner, job, data=b"other") is False
    assert world.read(artifacts.locate, job.id, "a.txt").data == b"hello"


def test_only_the_run_that_owns_the_job_can_add(world: World) -> None:
    owner, job = running(world)
    stranger = world.worker()
    for who, epoch in ((stranger, job.epoch), (owner, job.epoch + 1), (owner, job.epoch - 1)):
        with pytest.raises(LeaseLost):
            world.run(artifacts.add, who, job.id, epoch, entry("a"), content(b"x"))
        with pytest.raises(LeaseLost):
            world.run(blobs.begin, who, job.id, epoch, ids.new())
    assert names(world, job.id) == []
    assert world.sql("select count(*) from holdfast_blob") == [(0,)]


def test_a_run_that_lost_its_job_is_told_so_even_where_its_heir_has_stored_the_name(world: World) -> None:
    slow, old = running(world)
    blob = begin_blob(world, slow, old)
    world.lose(slow)
    quick = world.worker()
    new = world.take(quick, suspects=1)
    add(world, quick, new, "a.txt", content(b"heir"), entry("inside"))
    with pytest.raises(LeaseLost):
        add(world, slow, old, "a.txt", content(b"late", blob))
    assert world.read(artifacts.locate, new.id, "a.txt").data == b"heir"


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.RUNNING])
def test_a_job_that_does_not_run_stores_nothing(world: World, state: JobState) -> None:
    placed = world.place(state)
    with pytest.raises(LeaseLost):
        world.run(artifacts.add, placed.owner, placed.id, placed.epoch, entry("a"), content(b"x"))
    assert [name for name in names(world, placed.id) if name != "completion"] == []


def test_what_is_not_there_is_not_found_as_a_job_or_as_an_artifact(each_store: World) -> None:
    job_id = each_store.add()
    for op, args in ((artifacts.get, ("x",)), (artifacts.locate, ("x",)), (artifacts.get, ("completion",))):
        with pytest.raises(NotFound, match="artifact of job"):
            each_store.read(op, job_id, *args)
        with pytest.raises(NotFound, match="no job"):
            each_store.read(op, "nobody", *args)
    with pytest.raises(NotFound, match="no job"):
        each_store.read(artifacts.list_, "nobody")


# -- the result


def test_the_result_is_the_artifact_completion(world: World) -> None:
    owner, job = running(world)
    add_small(world, owner, job)
    assert names(world, job.id) == ["a.txt"]
    world.finish(owner, job, Done('{"é": 1}'))
    assert names(world, job.id) == ["completion", "a.txt"]
    found = world.read(artifacts.locate, job.id, "completion")
    assert found.data == '{"é": 1}'.encode()
    assert (found.artifact.content_type, found.artifact.size) == ("application/json", 9)
    assert found.artifact.sha256 == hashlib.sha256(found.data).hexdigest()


def test_a_job_that_failed_has_artifacts_and_no_completion(world: World) -> None:
    owner, job = running(world)
    add_small(world, owner, job)
    world.finish(owner, job, Failed("permanent", ERROR))
    assert names(world, job.id) == ["a.txt"]


def test_a_replay_keeps_artifacts_and_shows_no_stale_completion(world: World) -> None:
    owner, job = running(world)
    add_small(world, owner, job)
    world.finish(owner, job, Done("1"))
    world.run(actions.retry, job.id)
    assert names(world, job.id) == ["a.txt"]
    again = world.take(owner)
    assert add_small(world, owner, again, data=b"other") is False


def test_a_fresh_replay_begins_without_artifacts(world: World) -> None:
    owner, job = running(world)
    add_small(world, owner, job)
    blob = add_large(world, owner, job)
    world.finish(owner, job, Done("1"))
    world.run(actions.retry, job.id)
    world.run(steps.forget, job.id)
    assert names(world, job.id) == []
    assert state_of(world, blob) == ("doomed", 0)
    assert add_small(world, owner, world.take(owner), data=b"new")


# -- gone with the job


def ended(world: World) -> tuple[str, str]:
    """A finished job with artifacts, and its blob."""
    owner, job = running(world)
    add_small(world, owner, job)
    blob = add_large(world, owner, job)
    assert state_of(world, blob) == ("kept", 1)
    world.finish(owner, job, Done("1"))
    return job.id, blob


def by_delete(world: World, job_id: str) -> None:
    world.run(actions.delete, job_id)


def by_bulk(world: World, job_id: str) -> None:
    order = Order(Action.DELETE)
    world.run(actions.apply, [job_id], order, actor="ada", reason="", target="jobs")


def by_retention(world: World, job_id: str) -> None:
    world.run(retention.prune_jobs, [job_id], 0)


def by_somebody_elses_code(world: World, job_id: str) -> None:
    world.sql("delete from holdfast_attempt where job_id = :id", id=job_id)
    world.sql("delete from holdfast_step where job_id = :id", id=job_id)
    world.sql("delete from holdfast_job where id = :id", id=job_id)


@pytest.mark.parametrize("how", [by_delete, by_bulk, by_retention, by_somebody_elses_code])
def test_artifacts_go_with_their_job_however_it_is_deleted(world: World, how: Callable[[World, str], None]) -> None:
    kept, kept_blob = ended(world)
    job_id, blob = ended(world)
    how(world, job_id)
    assert world.sql("select distinct job_id from holdfast_artifact") == [(kept,)]
    assert (state_of(world, blob), state_of(world, kept_blob)) == (("doomed", 0), ("kept", 1))
    assert sound(world)


def test_a_result_that_is_not_kept_takes_its_artifacts_along(world: World) -> None:
    job_id, blob = ended(world)
    assert world.run(retention.prune_results, [job_id], 0) == 1
    assert names(world, job_id) == []
    assert state_of(world, blob) == ("doomed", 0)
    # What the job does again it stores again.
    assert world.read(steps.read_journal, job_id).steps == ()
    assert sound(world)


def test_a_delete_that_is_rolled_back_leaves_the_job_and_all_its_artifacts(each_store: World) -> None:
    job_id, blob = ended(each_store)

    async def fails(tx: object) -> None:
        await actions.delete(tx, job_id)  # type: ignore[arg-type]
        raise RuntimeError("in the middle of it")

    with pytest.raises(RuntimeError):
        each_store.store.write(Op(fails))  # type: ignore[arg-type]
    assert names(each_store, job_id) == ["completion", "a.txt", "big.bin"]
    assert state_of(each_store, blob) == ("kept", 1)
    assert sound(each_store)


# -- blobs


def test_a_blob_whose_writer_may_still_keep_it_is_left_alone(world: World) -> None:
    owner, job = running(world)
    blob = begin_blob(world, owner, job)
    world.clock.advance(86_400 * 365)
    assert world.read(blobs.abandoned) == []
    add(world, owner, job, "late.bin", content(b"x", blob))
    world.run(blobs.doom, [blob])
    assert state_of(world, blob) == ("kept", 1)


def test_a_blob_whose_writer_is_gone_is_given_up_and_cannot_be_kept(world: World) -> None:
    slow, old = running(world)
    blob = begin_blob(world, slow, old)
    world.lose(slow)
    world.take(world.worker(), suspects=1)
    assert world.read(blobs.abandoned) == []  # young
    world.clock.advance(61)
    assert world.read(blobs.abandoned) == [blob]
    world.run(blobs.doom, [blob])
    with pytest.raises(LeaseLost):
        add(world, slow, old, "late.bin", content(b"x", blob))
    with pytest.raises(StorageError):
        world.run(blobs.add_part, blob, 0, b"x")
    assert world.read(blobs.doomed) == [blob]
    world.run(blobs.drop, [blob])
    assert state_of(world, blob) == ("gone", 0)


def test_a_blob_that_is_gone_cannot_become_an_artifact(each_store: World) -> None:
    owner, job = running(each_store)
    blob = begin_blob(each_store, owner, job)
    each_store.run(blobs.doom, [blob])
    with pytest.raises(StorageError):
        each_store.store.write(
            Op(
                lambda tx: artifacts.add(tx, owner, job.id, job.epoch, entry("a"), content(b"x", blob)),
                patience=0.05,
            )
        )
    assert names(each_store, job.id) == []


def test_parts_are_written_again_in_their_place_and_dropped_in_steps(world: World) -> None:
    owner, job = running(world)
    blob = begin_blob(world, owner, job)
    for n in range(40):
        world.run(blobs.add_part, blob, n, b"part %d" % n)
    world.run(blobs.add_part, blob, 3, b"anew")
    assert world.read(blobs.read_part, blob, 3) == b"anew"
    assert world.read(blobs.read_part, blob, 40) is None
    world.run(blobs.doom, [blob])
    assert [world.run(blobs.drop_parts, blob) for _ in range(2)] == [True, False]
    assert world.sql("select count(*) from holdfast_blob_part") == [(0,)]


def test_a_fork_has_the_artifacts_of_the_steps_that_it_keeps_and_outlives_its_original(world: World) -> None:
    owner, job = running(world)
    blob = add_large(world, owner, job, "before.bin")
    world.run(steps.record, owner, job.id, job.epoch, step_at(2, "cut"))
    late = Step(key=key_of("artifact", "after", 1), kind="artifact", name="after", called="", position=3)
    add(world, owner, job, "after", content(b"x"), late)
    world.finish(owner, job, Done("1"))
    fork = world.run(steps.fork, job.id, "cut", ids.new())
    assert names(world, fork) == ["before.bin"]
    assert state_of(world, blob) == ("kept", 2)
    world.run(actions.delete, job.id)
    assert state_of(world, blob) == ("kept", 1)
    assert sound(world)
    world.run(actions.delete, fork)
    assert state_of(world, blob) == ("doomed", 0)


def step_at(position: int, name: str) -> Step:
    return Step(key=key_of("step", name, 1), kind="step", name=name, called="f", position=position, value="1")


def test_an_original_and_its_fork_that_are_deleted_at_once_leave_a_doomed_blob(
    two_worlds: tuple[World, World],
) -> None:
    world, other = two_worlds
    for _ in range(5):
        owner, job = running(world)
        blob = add_large(world, owner, job, "before.bin")
        world.run(steps.record, owner, job.id, job.epoch, step_at(2, "cut"))
        world.finish(owner, job, Done("1"))
        fork = world.run(steps.fork, job.id, "cut", ids.new())
        all_at_once([partial(by_delete, world, job.id), partial(by_delete, other, fork)])
        assert state_of(world, blob) == ("doomed", 0)


def test_verify_finds_artifacts_without_jobs_and_blobs_that_miscount(each_store: World) -> None:
    _, blob = ended(each_store)
    each_store.sql("update holdfast_blob set refs = 7 where id = :id", id=blob)
    assert not sound(each_store)
    each_store.sql("update holdfast_blob set refs = 1 where id = :id", id=blob)
    assert sound(each_store)
    each_store.sql("update holdfast_artifact set job_id = 'nobody'")
    assert not sound(each_store)


def test_the_schema_refuses_an_artifact_with_bytes_in_two_places(on_sqlite: World) -> None:
    with pytest.raises((sqlite3.IntegrityError, StorageError)):
        on_sqlite.sql(
            "insert into holdfast_artifact (job_id, name, key, content_type, size, sha256, epoch, created_at)"
            " values ('j', 'n', 'k', 't', 0, '', 0, 0)"
        )
