"""How much of a stream is kept, how summaries change, and what a cursor is."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.client.streams import Tail
from holdfast.errors import CursorExpired, FrameTooLarge, InvalidArguments, InvalidCursor, InvalidInput
from holdfast.model.streams import FRAME_LIMIT, MAX_FRAMES, MAX_STREAM_BYTES, Cursor, Frame, FramePage, Progress
from holdfast.model.values import instant_of
from holdfast.rules.streams import NULL, fitting, kept, measure, merged
from holdfast.streams.frames import draft_of, patch_of, progress_of

SECOND = 1_000_000


# -- what is kept


def test_few_best_effort_frames_are_kept_for_their_number_and_many_for_their_time() -> None:
    assert kept(0) == 64
    assert kept(1, seconds=30) == 64
    assert kept(2.1, seconds=30) == 126
    assert kept(100, seconds=30) == 6_000
    assert kept(1e9) == 16_384
    assert kept(math.inf) == 16_384
    assert kept(1e9, size=64 * 1024) == 512, "32 MiB of the largest frames"


def test_the_rate_is_a_moving_average_that_forgets_a_fifth_with_each_batch() -> None:
    assert measure(0, 10, None) == 10
    assert measure(100, 10, SECOND) == pytest.approx(0.2 * 10 + 0.8 * 100)
    assert measure(0, 40, 20_000) == pytest.approx(0.2 * 2_000)
    rate = 0.0
    for _ in range(50):
        rate = measure(rate, 40, 20_000)
    assert rate == pytest.approx(2_000, rel=0.01)


def test_a_clock_that_stands_still_or_steps_back_makes_no_infinite_rate() -> None:
    assert measure(0, 1, 0) == pytest.approx(200)
    assert measure(0, 1, -SECOND) == pytest.approx(200)


def test_a_stream_takes_what_fits_by_number_and_by_size() -> None:
    assert fitting(0, 0, [1, 2, 3]) == 3
    assert fitting(MAX_FRAMES - 2, 0, [1, 1, 1]) == 2
    assert fitting(0, MAX_STREAM_BYTES - 5, [3, 2, 1]) == 2
    assert fitting(MAX_FRAMES, 0, [1]) == 0


# -- summaries


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        # The examples of RFC 7396 whose documents and patches are objects.
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        # Ours: a null that is really stored.
        ({"a": 1}, {"a": NULL}, {"a": None}),
        ({}, {"a": {"b": NULL}, "c": [NULL, [NULL]]}, {"a": {"b": None}, "c": [None, [None]]}),
        ({"a": 1}, {"a": {"b": 2}}, {"a": {"b": 2}}),
    ],
)
def test_a_merge_patch_changes_a_document_as_the_standard_says(
    document: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = repr(document)
    assert merged(document, patch) == expected
    assert repr(document) == before, "the document itself stays"


_leaf = st.sampled_from([None, 1, "x", NULL, [1, NULL]])
_object = st.dictionaries(st.sampled_from("ab"), _leaf | st.dictionaries(st.sampled_from("ab"), _leaf))


@given(_object)
def test_a_patch_is_idempotent_and_its_sentinel_is_never_read(patch: dict[str, Any]) -> None:
    once = merged({}, patch)
    assert merged(once, patch) == once
    assert NULL not in repr(once)


@pytest.mark.parametrize("patch", [[], "text", 1, None, [["a", 1]]])
def test_a_patch_that_is_no_object_is_refused(patch: Any) -> None:
    with pytest.raises(InvalidInput):
        merged({}, patch)
    with pytest.raises(InvalidInput, match="object"):
        patch_of(patch)


# -- cursors


@pytest.mark.parametrize(
    "text", ["", "1", "1.", ".1", "-1.0", "1.0.0", "a.b", "01.0", "1.0 ", "١.0", "9" * 19 + ".0", "1,0"]
)
def test_a_malformed_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidCursor):
        Cursor.read(text)


@pytest.mark.parametrize("value", [None, 1, 1.5, b"1.0", ["1.0"]])
def test_what_is_no_text_is_no_cursor(value: Any) -> None:
    with pytest.raises(InvalidCursor):
        Cursor.read(value)


@given(st.integers(0, 10**17), st.integers(0, 10**17))
def test_a_cursor_is_read_as_it_was_written(seq: int, live: int) -> None:
    assert Cursor.read(str(Cursor(seq, live))) == Cursor(seq, live)


# -- a reader's place


def frame(cursor: str, *, kind: str = "output", data: Any = "x", control: bool = False) -> Frame:
    place = Cursor.read(cursor)
    return Frame(
        cursor=cursor, seq=place.seq, kind=kind, data=data, attempt=1, step=None, at=instant_of(0), control=control
    )


def stretch(*frames: Frame, head: str = "9.9", trimmed: int = 0, ended: bool = False) -> FramePage:
    return FramePage(ended, Cursor.read(head), trimmed, frames)


def tail(after: str | None = None, limit: int = 10, *, best_effort: bool = True) -> Tail:
    return Tail("job", after, limit, best_effort=best_effort)


def test_a_cursor_behind_what_was_trimmed_has_expired_and_says_where_to_go_on() -> None:
    with pytest.raises(CursorExpired, match="3 best-effort frames") as expired:
        tail("2.4").take(stretch(trimmed=7))
    assert expired.value.oldest == "2.7"
    assert tail("2.7").take(stretch(frame("3.8"), trimmed=7)).cursor == "3.8"


def test_who_reads_durable_frames_alone_or_from_the_start_misses_nothing() -> None:
    assert tail("2.4", best_effort=False).take(stretch(frame("3.8"), trimmed=7)).cursor == "3.8"
    assert [f.kind for f in tail().take(stretch(frame("3.8"), trimmed=7)).frames] == ["output"]


def test_a_reader_that_falls_behind_on_its_way_is_told_what_it_missed() -> None:
    reader = tail()
    reader.take(stretch(frame("1.1")))
    page = reader.take(stretch(frame("2.8"), trimmed=5))
    assert [(f.kind, f.data, f.control) for f in page.frames] == [
        ("trimmed", {"lost": 4}, True),
        ("output", "x", False),
    ]
    assert reader.take(stretch(trimmed=5)).frames == ()


def test_a_cursor_beyond_the_end_is_of_another_stream() -> None:
    with pytest.raises(InvalidCursor):
        tail("10.0").take(stretch(head="9.9"))
    with pytest.raises(InvalidCursor):
        tail("9.10").take(stretch(head="9.9"))


def test_that_frames_are_superseded_is_told_to_those_who_may_have_read_them() -> None:
    news = frame("6.0", kind="superseded", data={"step": "s#1", "first": 3, "last": 5}, control=True)
    assert tail("4.0").take(stretch(news)).frames == (news,)
    assert tail("2.0").take(stretch(news, frame("7.0"))).frames == (frame("7.0"),)


def test_a_stream_is_closed_when_its_job_has_ended_and_nothing_is_behind_the_page() -> None:
    assert tail().take(stretch(frame("1.0"), ended=True)).closed
    assert not tail(limit=1).take(stretch(frame("1.0"), ended=True)).closed
    assert not tail().take(stretch(frame("1.0"))).closed


def test_a_reader_looks_ever_less_often_while_nothing_comes() -> None:
    reader = tail()
    first, still = reader.pause, reader.silence
    for _ in range(20):
        reader.take(stretch())
    assert (first, still) == (0.004, 0.05)
    assert (reader.pause, reader.silence) == (0.05, 2.0)
    reader.take(stretch(frame("1.0")))
    assert (reader.pause, reader.silence) == (first, still)


# -- what a handler may say


@pytest.mark.parametrize("percent", [-0.1, 100.1, math.nan, math.inf, "50", True])
def test_a_percent_that_is_none_is_refused(percent: Any) -> None:
    with pytest.raises(InvalidInput, match="percent"):
        progress_of(percent, None, None)


def test_progress_has_three_fields_of_which_each_may_be_left_out() -> None:
    assert progress_of(50, None, None) == Progress(percent=50.0)
    assert progress_of(None, "a\x00b\ud800", "loading") == Progress(message="a\ufffdb?", stage="loading")
    assert Progress(percent=1.0, message="m").updated(Progress(percent=2.0, stage="s")) == Progress(
        percent=2.0, message="m", stage="s"
    )
    with pytest.raises(InvalidInput, match="message"):
        progress_of(None, "x" * 1025, None)
    with pytest.raises(InvalidInput, match="stage"):
        progress_of(None, None, "a\nb")


def test_a_frame_holds_text_bytes_or_json_of_at_most_64_kib() -> None:
    assert draft_of("é", "output", "", False).data == "é".encode()
    assert draft_of(b"\x00\xff", "raw", "", False).encoding == "bytes"
    assert draft_of({"a": [1]}, "output", "", False).data == b'{"a":[1]}'
    assert len(draft_of("x" * FRAME_LIMIT, "output", "", False).data) == FRAME_LIMIT
    for large in ("x" * (FRAME_LIMIT + 1), b"x" * (FRAME_LIMIT + 1), ["x" * FRAME_LIMIT]):
        with pytest.raises(FrameTooLarge):
            draft_of(large, "output", "", False)


def test_a_frame_that_cannot_be_stored_as_it_is_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="surrogate"):
        draft_of("\ud800", "output", "", False)
    with pytest.raises(InvalidArguments):
        draft_of({"a": math.nan}, "output", "", False)
    with pytest.raises(InvalidArguments):
        draft_of(object(), "output", "", False)
    for kind in ("", "a\nb", "x" * 200, "superseded", "trimmed", None):
        with pytest.raises(InvalidInput):
            draft_of("x", kind, "", False)
