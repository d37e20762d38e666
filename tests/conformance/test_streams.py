"""Streams: numbered without gaps by the one who owns the job, read by all, trimmed where that was agreed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast.errors import Corruption, LeaseLost, NotFound, PayloadTooLarge
from holdfast.model.jobs import JobState
from holdfast.model.outcomes import Done, Retry
from holdfast.model.streams import MAX_FRAMES, MAX_STREAM_BYTES, START, Appended, Batch, Cursor, Draft, Frame, Progress
from holdfast.model.values import instant_of
from holdfast.storage.ops import streams
from holdfast.storage.ops.jobs import actions
from holdfast.storage.ops.store import verify
from holdfast.storage.port import Op, Tx
from tests.patience import SOON

from .racing import aside, await_blocked, open_transaction
from .world import ERROR, Placed, World


def text(data: str, **fields: Any) -> Draft:
    return Draft("output", "text", data.encode(), **fields)


def batch(placed: Placed, *drafts: Draft, serial: int = 1, **fields: Any) -> Batch:
    known = {"epoch": placed.epoch, "generation": 0, "attempt": 1, "writer": f"w{placed.epoch}"}
    return Batch(job_id=placed.id, owner=placed.owner, serial=serial, drafts=drafts, **{**known, **fields})


def say(world: World, placed: Placed, *drafts: Draft, **fields: Any) -> Appended:
    (answer,) = world.run(streams.append, [batch(placed, *drafts, **fields)])
    assert isinstance(answer, Appended), answer
    return answer


def read(world: World, job_id: str, after: Cursor = START, n: int = 100, **how: Any) -> tuple[Frame, ...]:
    return world.read(streams.read, job_id, after, n, **how).frames


def data(frames: tuple[Frame, ...]) -> list[Any]:
    return [frame.data for frame in frames]


def rows(world: World, table: str, job_id: str) -> int:
    return int(world.sql(f"select count(*) from {table} where job_id = :id", id=job_id)[0][0])


# -- numbers and order


def test_frames_are_numbered_from_one_and_read_in_the_order_in_which_they_were_said(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    assert say(world, placed, text("a"), text("b")) == Appended(2, 0)
    assert say(world, placed, Draft("raw", "bytes", b"\x00\xff"), serial=2) == Appended(3, 0)
    assert say(world, placed, Draft("log", "json", b'{"a":1}'), serial=3) == Appended(4, 0)
    frames = read(world, placed.id)
    assert [frame.seq for frame in frames] == [1, 2, 3, 4]
    assert data(frames) == ["a", "b", b"\x00\xff", {"a": 1}]
    assert [frame.kind for frame in frames] == ["output", "output", "raw", "log"]
    assert {(frame.attempt, frame.generation, frame.step, frame.at) for frame in frames} == {
        (1, 0, None, instant_of(world.now))
    }


def test_the_two_kinds_of_frames_have_their_own_numbers_and_one_order(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    live = {"best_effort": True}
    say(world, placed, text("a"), text("x", **live), text("b"), text("y", **live), text("z", **live))
    frames = read(world, placed.id)
    assert data(frames) == ["a", "x", "b", "y", "z"]
    assert [(frame.seq, frame.best_effort) for frame in frames] == [
        (1, False), (1, True), (2, False), (2, True), (3, True),
    ]  # fmt: skip
    assert data(read(world, placed.id, best_effort=False)) == ["a", "b"]
    for place in range(5):
        after = Cursor.read(frames[place].cursor)
        assert read(world, placed.id, after) == frames[place + 1 :], "a reader may stop anywhere and go on"


def test_pages_meet_without_a_gap(each_store: World) -> None:
    placed = each_store.place(JobState.RUNNING)
    say(each_store, placed, *(text(str(n), best_effort=n % 3 == 0) for n in range(50)))
    found: list[Any] = []
    after = START
    while page := read(each_store, placed.id, after, 7):
        found += data(page)
        after = Cursor.read(page[-1].cursor)
    assert found == [str(n) for n in range(50)]


def test_what_is_rolled_back_leaves_no_gap(each_store: World) -> None:
    placed = each_store.place(JobState.RUNNING)

    async def fail(tx: Tx) -> None:
        await streams.append(tx, [batch(placed, text("lost"))])
        raise RuntimeError("after the append")

    with pytest.raises(RuntimeError, match="after the append"):
        each_store.store.write(Op(fail))
    assert say(each_store, placed, text("kept")) == Appended(1, 0)
    assert data(read(each_store, placed.id)) == ["kept"]


def test_a_batch_that_comes_again_is_appended_once(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    say(world, placed, text("a"))
    say(world, placed, text("a"))
    say(world, placed, text("b"), serial=2)
    say(world, placed, text("b"), serial=2)
    assert data(read(world, placed.id)) == ["a", "b"]


def test_several_jobs_speak_at_once_and_one_that_is_lost_keeps_none_of_them(world: World) -> None:
    one, two, lost = (world.place(JobState.RUNNING) for _ in range(3))
    answers = world.run(
        streams.append,
        [batch(two, text("2")), batch(lost, text("no"), epoch=lost.epoch + 1), batch(one, text("1"), text("1"))],
    )
    assert answers[0] == Appended(1, 0)
    assert isinstance(answers[1], LeaseLost)
    assert answers[2] == Appended(2, 0)
    assert [data(read(world, placed.id)) for placed in (one, two, lost)] == [["1", "1"], ["2"], []]


def test_an_old_run_beside_the_new_one_of_the_same_job_is_not_heard(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    answers = world.run(
        streams.append, [batch(placed, text("old"), epoch=placed.epoch - 1, writer="old"), batch(placed, text("new"))]
    )
    assert isinstance(answers[0], LeaseLost)
    assert data(read(world, placed.id)) == ["new"]


# -- whose it is


def test_a_fenced_attempt_says_nothing_after_the_new_one_has_begun(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    old = batch(placed, text("too late"), serial=2)
    say(world, placed, text("first"))
    world.lose(placed.owner)
    placed.owner = world.worker(queues=[placed.queue])
    placed.epoch = world.take(placed.owner, queues=[placed.queue], suspects=1).epoch
    say(world, placed, text("second"), attempt=2)
    (answer,) = world.run(streams.append, [old])
    assert isinstance(answer, LeaseLost)
    assert [(f.data, f.attempt) for f in read(world, placed.id)] == [("first", 1), ("second", 2)]


def test_nobody_but_the_owner_appends(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    for wrong in ({"epoch": placed.epoch + 1}, {"epoch": placed.epoch - 1}):
        (answer,) = world.run(streams.append, [batch(placed, text("no"), **wrong)])
        assert isinstance(answer, LeaseLost)
    stranger = Placed(placed.id, placed.queue, "somebody", placed.epoch)
    (answer,) = world.run(streams.append, [batch(stranger, text("no"))])
    assert isinstance(answer, LeaseLost)
    assert rows(world, "holdfast_stream", placed.id) == rows(world, "holdfast_frame", placed.id) == 0


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.RUNNING])
def test_only_a_running_job_has_something_to_say(each_store: World, state: JobState) -> None:
    placed = each_store.place(state)
    (answer,) = each_store.run(streams.append, [batch(placed, text("no"))])
    assert isinstance(answer, LeaseLost)
    with pytest.raises(LeaseLost):
        each_store.run(streams.summarize, placed.owner, placed.id, placed.epoch, {"a": 1})


def test_an_outcome_closes_the_stream_and_a_replay_opens_it_again(world: World) -> None:
    placed = world.place(JobState.READY)
    job = world.take_placed(placed)
    say(world, placed, text("a"))
    assert not world.read(streams.read, placed.id, START, 9).ended
    world.finish(placed.owner, job, Done("1"))
    found = world.read(streams.read, placed.id, START, 9)
    assert (found.ended, data(found.frames)) == (True, ["a"])
    world.run(actions.retry, placed.id)
    world.take_placed(placed)
    say(world, placed, text("b"), generation=1)
    found = world.read(streams.read, placed.id, START, 9)
    assert not found.ended
    assert [(f.seq, f.data, f.generation) for f in found.frames] == [(1, "a", 0), (2, "b", 1)]


def test_a_rescue_leaves_a_job_whose_append_is_under_way_to_the_next_look(on_postgres: World) -> None:
    world = on_postgres
    placed = world.place(JobState.RUNNING)
    world.clock.advance(31)
    with open_transaction(world) as within:
        within(Op(lambda tx: streams.append(tx, [batch(placed, text("whole"))])))
        assert world.rescue(placed.owner).rescued == ()
    assert world.rescue(placed.owner).rescued == (placed.id,)
    assert data(read(world, placed.id)) == ["whole"]


def test_two_that_append_to_one_stream_wait_for_each_other_and_leave_no_gap(on_postgres: World) -> None:
    world = on_postgres
    placed = world.place(JobState.RUNNING)
    with aside() as start:
        with open_transaction(world) as within:
            within(Op(lambda tx: streams.append(tx, [batch(placed, text("a"), text("b"), writer="one")])))
            other = start(lambda: say(world, placed, text("c"), writer="two"))
            await_blocked(world)
            assert read(world, placed.id) == (), "nobody sees a later number before an earlier one"
        assert other.result(10) == Appended(3, 0)
    assert data(read(world, placed.id)) == ["a", "b", "c"]


# -- what is kept


def test_best_effort_frames_are_trimmed_to_a_floor_and_durable_ones_never(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    for serial in range(1, 21):
        world.clock.advance(60)
        say(world, placed, text("d"), *(text("x", best_effort=True) for _ in range(10)), serial=serial)
    found = world.read(streams.read, placed.id, START, 10_000)
    assert (found.head, found.trimmed) == (Cursor(20, 200), 136)
    assert [f.seq for f in found.frames if not f.best_effort] == list(range(1, 21))
    assert [f.seq for f in found.frames if f.best_effort] == list(range(137, 201))


def test_at_a_high_rate_more_best_effort_frames_are_kept_and_no_more_than_the_ceiling(each_store: World) -> None:
    placed = each_store.place(JobState.RUNNING)
    flood = tuple(text("x", best_effort=True) for _ in range(2_000))
    kept = []
    for serial in range(1, 13):
        each_store.clock.advance(1)
        say(each_store, placed, *flood, serial=serial)
        found = each_store.read(streams.read, placed.id, START, 1)
        kept.append(found.head.live - found.trimmed)
    assert kept[-1] == 16_384
    assert rows(each_store, "holdfast_frame", placed.id) == 16_384
    for serial in range(13, 60):
        each_store.clock.advance(60)
        say(each_store, placed, text("x", best_effort=True), serial=serial)
    found = each_store.read(streams.read, placed.id, START, 1)
    assert 64 <= found.head.live - found.trimmed < 1_000, "it slows down, and less is kept"


def test_a_full_stream_takes_what_fits_and_says_how_much_it_refused(each_store: World) -> None:
    placed = each_store.place(JobState.RUNNING)
    say(each_store, placed, text("a"))
    each_store.sql("update holdfast_stream set head = :head", head=MAX_FRAMES - 2)
    answer = say(each_store, placed, text("b"), text("c"), text("d"), text("x", best_effort=True), serial=2)
    assert answer == Appended(MAX_FRAMES, 1, refused=1)
    assert data(read(each_store, placed.id)) == ["a", "b", "c", "x"]
    assert say(each_store, placed, text("e"), serial=3).refused == 1


def test_a_stream_is_full_at_its_size_too(each_store: World) -> None:
    placed = each_store.place(JobState.RUNNING)
    say(each_store, placed, text("four"))
    each_store.sql("update holdfast_stream set bytes = :bytes", bytes=MAX_STREAM_BYTES - 3)
    assert say(each_store, placed, text("abc"), text("d"), serial=2) == Appended(2, 0, refused=1)


# -- steps that begin again


def restart(step: str) -> Draft:
    return Draft("", "restart", b"", step)


def test_a_step_that_begins_again_supersedes_what_it_said_and_nothing_else(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    say(
        world, placed, text("before"), text("o1", step="draft#1"), text("l1", step="draft#1", best_effort=True),
        text("other", step="load#1"), text("o2", step="draft#1"),
    )  # fmt: skip
    say(world, placed, restart("draft#1"), text("n1", step="draft#1"), serial=2)
    frames = read(world, placed.id)
    assert [f.data for f in frames if not f.control] == ["before", "other", "n1"]
    (news,) = [f for f in frames if f.control]
    assert (news.kind, news.data) == ("superseded", {"step": "draft#1", "first": 2, "last": 4})
    assert (news.seq, frames[-1].seq) == (5, 6), "the frames that are hidden keep their numbers"


def test_a_step_that_said_nothing_supersedes_nothing(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    say(world, placed, restart("draft#1"), text("a", step="draft#1"))
    assert data(read(world, placed.id)) == ["a"]


def test_a_step_may_begin_again_within_one_batch(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    say(
        world,
        placed,
        text("a", step="s#1"),
        restart("s#1"),
        text("b", step="s#1"),
        restart("s#1"),
        text("c", step="s#1"),
    )
    assert [f.data for f in read(world, placed.id) if not f.control] == ["c"]


# -- progress


def test_each_field_of_the_progress_is_set_without_erasing_the_others(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    assert world.read(streams.progress_of, placed.id) == Progress()
    say(world, placed, progress=Progress(percent=10.0, stage="loading"))
    say(world, placed, progress=Progress(message="half"), serial=2)
    world.clock.advance(5)
    say(world, placed, text("a frame says nothing about progress"), serial=3)
    found = world.read(streams.progress_of, placed.id)
    assert found == Progress(percent=10.0, message="half", stage="loading", at=world.instant - timedelta(seconds=5))
    say(world, placed, progress=Progress(message="", percent=0.0), serial=4)
    assert world.read(streams.progress_of, placed.id).percent == 0.0
    assert world.read(streams.progress_of, placed.id).message == ""


def test_the_progress_of_a_new_attempt_begins_anew(world: World) -> None:
    placed = world.place(JobState.READY)
    job = world.take_placed(placed)
    say(world, placed, progress=Progress(percent=90.0, message="nearly"))
    world.finish(placed.owner, job, Retry(0, ERROR))
    assert world.read(streams.progress_of, placed.id).percent == 90.0
    world.take_placed(placed)
    say(world, placed, progress=Progress(stage="loading"), attempt=2)
    found = world.read(streams.progress_of, placed.id)
    assert (found.percent, found.message, found.stage) == (None, None, "loading")


# -- summaries


def summarize(world: World, placed: Placed, patch: dict[str, Any]) -> int:
    return world.run(streams.summarize, placed.owner, placed.id, placed.epoch, patch).version


def test_a_summary_is_merged_and_each_change_is_a_version(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    assert world.read(streams.summary_of, placed.id).version == 0
    assert summarize(world, placed, {"tokens": {"in": 1}, "gone": 1}) == 1
    assert summarize(world, placed, {"tokens": {"out": 2}, "gone": None, "none": "__holdfast_null__"}) == 2
    found = world.read(streams.summary_of, placed.id)
    assert found.document == {"tokens": {"in": 1, "out": 2}, "none": None}
    assert (found.version, found.at) == (2, world.instant)


@pytest.mark.parametrize("stored", ["{", "[1]", "null", ""])
def test_a_summary_that_cannot_be_read_is_an_error_and_stays_as_it_is(each_store: World, stored: str) -> None:
    placed = each_store.place(JobState.RUNNING)
    summarize(each_store, placed, {"a": 1})
    each_store.sql("update holdfast_summary set document = :stored", stored=stored)
    with pytest.raises(Corruption, match=placed.id):
        each_store.read(streams.summary_of, placed.id)
    with pytest.raises(Corruption, match=placed.id):
        summarize(each_store, placed, {"a": 2})
    assert each_store.sql("select document, version from holdfast_summary") == [(stored, 1)]


def test_a_summary_that_is_too_large_changes_nothing(world: World) -> None:
    placed = world.place(JobState.RUNNING)
    summarize(world, placed, {"a": 1})
    with pytest.raises(PayloadTooLarge):
        summarize(world, placed, {"b": "x" * 300_000})
    assert world.read(streams.summary_of, placed.id).document == {"a": 1}


# -- the job itself


def test_a_job_that_does_not_exist_has_no_stream(each_store: World) -> None:
    for op, more in ((streams.read, (START, 1)), (streams.progress_of, ()), (streams.summary_of, ())):
        with pytest.raises(NotFound):
            each_store.read(op, "nobody", *more)
    (answer,) = each_store.run(streams.append, [batch(Placed("nobody", "q", "w", 1), text("no"))])
    assert isinstance(answer, NotFound)


def test_a_stream_goes_with_its_job(world: World) -> None:
    placed = world.place(JobState.READY)
    job = world.take_placed(placed)
    say(world, placed, text("a"), text("b", best_effort=True))
    summarize(world, placed, {"a": 1})
    world.finish(placed.owner, job, Done("1"))
    world.run(actions.delete, placed.id)
    for table in ("holdfast_stream", "holdfast_frame", "holdfast_summary"):
        assert rows(world, table, placed.id) == 0


def test_a_stream_without_its_job_is_found_by_the_check_of_the_store(each_store: World) -> None:
    each_store.sql("insert into holdfast_stream (job_id) values ('orphan')")
    findings = {finding.rule: finding.broken_by for finding in each_store.read(verify, [])}
    assert findings["every stream has its job"] == ("orphan",)


def test_a_frame_that_no_version_writes_is_corruption(each_store: World) -> None:
    placed = each_store.place(JobState.RUNNING)
    for encoding, stored in (("odd", b"x"), ("json", b"{"), ("text", b"\xff")):
        say(each_store, placed, text("a"), writer=encoding)
        each_store.sql("update holdfast_frame set encoding = :encoding, data = :data", encoding=encoding, data=stored)
        with pytest.raises(Corruption):
            read(each_store, placed.id)


def test_whoever_listens_for_a_stream_is_woken_by_each_append(each_store: World) -> None:
    placed = each_store.place(JobState.RUNNING)
    listener = each_store.store.wakeups.listen([f"stream:{placed.id}"])
    try:
        each_store.store.write(Op(lambda tx: streams.append(tx, [batch(placed, text("a"))])))
        assert listener.wait(SOON)
    finally:
        listener.close()
