"""What a run has said and the store does not have yet: when it is due, what comes of it, and who waits for it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from holdfast.errors import HoldfastError, LeaseLost, StorageError, StreamFull
from holdfast.model.streams import MAX_FRAMES, Appended, Draft, Progress
from holdfast.streams.writer import BUFFERED_SECONDS, FrameBuffer
from holdfast.tasks.context import JobInfo, Stop

INFO = JobInfo("job", "task", "default", "", 1, 5, 0, 1, 0, worker="w")


class Desk:
    """Only notes that it was woken."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.woken = 0
        self.buffers: set[FrameBuffer] = set()

    def wake(self) -> None:
        self.woken += 1

    def enlist(self, buffer: FrameBuffer) -> None:
        self.buffers.add(buffer)

    def forget(self, buffer: FrameBuffer) -> None:
        self.buffers.discard(buffer)


def buffer() -> tuple[FrameBuffer, Any]:
    desk: Any = Desk()
    return FrameBuffer(desk, INFO, Stop()), desk


def word(text: str = "x", **fields: Any) -> Draft:
    return Draft("output", "text", text.encode(), **fields)


def test_what_is_said_within_moments_shares_a_batch_and_wakes_the_desk_once() -> None:
    out, desk = buffer()
    for n in range(5):
        out.put(word(str(n)))
    assert desk.woken == 1
    batch = out.take(100.0)
    assert [draft.data for draft in batch.drafts] == [b"0", b"1", b"2", b"3", b"4"]
    out.settle(Appended(5, 0))
    assert out.due() is None
    out.put(word())
    assert out.due() == 100.0 + BUFFERED_SECONDS


def test_a_frame_does_not_wait_for_the_progress_before_it() -> None:
    out, desk = buffer()
    out.put(word())
    out.take(100.0)
    out.settle(Appended(1, 0))
    out.tell(Progress(percent=1.0))
    assert (out.due() or 0) > 100.2
    before = desk.woken
    out.put(word())
    assert out.due() == 100.0 + BUFFERED_SECONDS
    assert desk.woken == before + 1


def test_a_batch_is_sent_again_as_it_was_until_it_is_settled() -> None:
    out, _ = buffer()
    out.put(word("a"))
    first = out.take(1.0)
    out.put(word("b"))
    out.postpone(1.0)
    assert out.take(2.0) is first
    out.settle(Appended(1, 0))
    second = out.take(3.0)
    assert (second.serial, [draft.data for draft in second.drafts]) == (first.serial + 1, [b"b"])


def test_the_store_is_asked_ever_less_often_and_not_at_all_for_a_run_that_is_fenced() -> None:
    out, _ = buffer()
    out.put(word())
    waits = []
    for _ in range(8):
        out.take(0.0)
        out.postpone(0.0)
        waits.append(out.due())
    assert waits == sorted(waits)  # type: ignore[type-var]
    assert waits[-1] == pytest.approx(1.28)
    out.stop.request("fenced")
    out.postpone(0.0)
    assert out.due() is None
    with pytest.raises(LeaseLost):
        out.put(word())


def test_a_flush_waits_for_what_was_said_before_it_and_for_no_more() -> None:
    out, _ = buffer()
    assert out.flush() is None
    out.put(word("a"))
    flushed = out.flush()
    assert flushed is not None
    assert out.due() == 0.0, "somebody waits"
    out.take(1.0)
    out.put(word("b"))
    out.settle(Appended(1, 0))
    assert flushed.done()
    out.check()


def test_whoever_says_too_much_at_once_is_given_something_to_wait_for_and_what_is_captured_is_dropped() -> None:
    out, _ = buffer()
    answers = [out.put(word()) for _ in range(2_000)]
    assert answers[-2] is None
    assert answers[-1] is not None
    for _ in range(20_000):
        assert out.put(word(), captured=True) is None
    assert len(out.take(1.0).drafts) == 8_000


def test_refused_frames_are_told_to_the_handler_or_at_the_end_of_its_run() -> None:
    out, _ = buffer()
    out.put(word())
    out.take(1.0)
    out.settle(Appended(MAX_FRAMES, 0, refused=1))
    assert [type(out.failure)] == [StreamFull]
    with pytest.raises(StreamFull):
        out.put(word())
    assert [out.failure] == [None], "it was told, and may go on"
    out.put(word(best_effort=True))


def test_a_store_that_fails_for_good_fails_the_run_but_a_lost_lease_is_told_elsewhere() -> None:
    for error, fails in ((StorageError("broken"), True), (LeaseLost("gone"), False)):
        out, _ = buffer()
        out.put(word())
        rest = out.finish()
        out.take(1.0)
        out.settle(error)
        assert rest is not None
        assert rest.done()
        assert (out.failure is error) is fails


def test_a_run_that_has_ended_says_nothing_more_and_is_forgotten_when_all_is_stored() -> None:
    out, desk = buffer()
    out.put(word())
    rest = out.finish()
    with pytest.raises(LeaseLost):
        out.put(word())
    with pytest.raises(LeaseLost):
        out.tell(Progress(percent=1.0))
    assert desk.buffers == {out}
    out.take(1.0)
    out.settle(Appended(1, 0))
    assert rest is not None
    assert rest.done()
    assert desk.buffers == set()
    silent, _ = buffer()
    assert silent.finish() is None


def test_what_is_abandoned_keeps_nobody_waiting() -> None:
    out, desk = buffer()
    out.put(word())
    rest = out.finish()
    out.abandon()
    assert rest is not None
    assert rest.done()
    assert desk.buffers == set()
    assert isinstance(out._error, HoldfastError)
