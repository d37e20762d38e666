"""What a run elsewhere says, spends, leaves behind and waits for."""

from __future__ import annotations

import io
from typing import Any

import pytest

from holdfast.errors import (
    DuplicateArtifact,
    InvalidInput,
    LeaseLost,
    PayloadMismatch,
    SpendConflict,
)  # fmt: skip
from holdfast.model.jobs import JobState
from holdfast.model.remote import Done, FrameDraft, Problem, Retry  # fmt: skip
from holdfast.rules.retry import RetryPolicy
from holdfast.storage.ops.signals import waking

from .lease_kit import Elsewhere

BROKEN = Problem("it broke", "Boom", "at line 1")
AT_ONCE = RetryPolicy(kind="none")


# -- what a run says


def test_frames_can_be_read_by_anybody(elsewhere: Elsewhere) -> None:
    _, job = elsewhere.running()
    frames = [
        FrameDraft("hello"),
        FrameDraft(b"\x00", "raw"),
        FrameDraft({"a": 1}, "data"),
        FrameDraft("…", "live", True),
    ]
    assert elsewhere.remote.emit(job.handle, frames) == "3.1"
    elsewhere.remote.finish(job.handle, Done())
    found = list(elsewhere.app.stream(job.id))
    assert [(frame.kind, frame.data) for frame in found] == [
        ("output", "hello"), ("raw", b"\x00"), ("data", {"a": 1}), ("live", "…"),
    ]  # fmt: skip
    assert {frame.attempt for frame in found} == {1}


def test_a_batch_that_is_sent_again_is_stored_once(elsewhere: Elsewhere) -> None:
    _, job = elsewhere.running()
    for batch in (1, 1, 2, 1, 2):
        cursor = elsewhere.remote.emit(job.handle, [FrameDraft(f"of {batch}")], batch=batch)
    elsewhere.remote.progress(job.handle, 10, batch=3)
    assert cursor == "2.0"
    assert [frame.data for frame in elsewhere.app.streams.read(job.id).frames] == ["of 1", "of 2"]


def test_progress_and_summary_can_be_seen(elsewhere: Elsewhere) -> None:
    _, job = elsewhere.running()
    elsewhere.remote.progress(job.handle, 50, "half", "load")
    elsewhere.remote.progress(job.handle, 60)
    seen = elsewhere.app.streams.progress(job.id)
    assert (seen.percent, seen.message, seen.stage) == (60.0, "half", "load")
    assert elsewhere.remote.summarize(job.handle, {"pages": 3}) == 1
    assert elsewhere.app.streams.summary(job.id).document == {"pages": 3}


def test_a_stranger_to_frames_is_refused(here: Elsewhere) -> None:
    _, job = here.running()
    for frames in ([FrameDraft("x" * 70_000)], [FrameDraft("x", "superseded")], [FrameDraft(b"")] * 2_001):
        with pytest.raises(InvalidInput):
            here.remote.emit(job.handle, frames)
    with pytest.raises(InvalidInput):
        here.remote.emit(job.handle, [], batch=0)


# -- what a run spends and leaves


def test_a_spend_counts_once_for_each_key_also_in_a_later_run(elsewhere: Elsewhere) -> None:
    worker, job = elsewhere.running(retry=AT_ONCE)
    elsewhere.app.budgets.set("team", {"tokens": 10, "usd": 1})
    assert not elsewhere.remote.spend(job.handle, "team", {"tokens": 4}, key="call-1").again
    assert elsewhere.remote.spend(job.handle, "team", {"tokens": 4}, key="call-1").again
    with pytest.raises(SpendConflict):
        elsewhere.remote.spend(job.handle, "team", {"tokens": 5}, key="call-1")
    elsewhere.remote.finish(job.handle, Retry(BROKEN))
    again = elsewhere.take(worker)
    assert elsewhere.remote.spend(again.handle, "team", {"tokens": 4}, key="call-1").again
    spent = elsewhere.remote.spend(again.handle, "team", {"tokens": 40}, key="call-2")
    assert [crossed.kind for crossed in spent.crossed] == ["hard"]
    assert elsewhere.app.budgets.get("team")["tokens"].spent == 44
    with pytest.raises(LeaseLost):
        elsewhere.remote.spend(job.handle, "team", {"tokens": 1}, key="call-3")


@pytest.mark.parametrize("size", [0, 11, 700_000])
def test_an_artifact_can_be_read_and_is_stored_once(elsewhere: Elsewhere, size: int) -> None:
    _, job = elsewhere.running()
    data = b"x" * size
    made = elsewhere.remote.artifact(job.handle, "report.bin", data, content_type="image/png")
    assert (made.size, made.content_type) == (size, "image/png")
    assert elsewhere.remote.artifact(job.handle, "report.bin", io.BytesIO(data), content_type="image/png") == made
    assert elsewhere.app.artifacts.read(job.id, "report.bin") == data
    for other in (b"other", b"y" * 700_000):
        with pytest.raises(DuplicateArtifact):
            elsewhere.remote.artifact(job.handle, "report.bin", other, content_type="image/png")
    assert [found.name for found in elsewhere.app.artifacts.list(job.id)] == ["report.bin"]


def test_a_later_run_finds_what_an_earlier_one_recorded(elsewhere: Elsewhere) -> None:
    worker, job = elsewhere.running(retry=AT_ONCE)
    elsewhere.remote.record_step(job.handle, "load", {"rows": 3})
    elsewhere.remote.artifact(job.handle, "load", b"of the same name")
    elsewhere.remote.finish(job.handle, Retry(BROKEN))
    again = elsewhere.take(worker)
    steps = {step.key: step.value for step in elsewhere.remote.steps(again.handle)}
    assert steps["step:load#1"] == {"rows": 3}
    kept = elsewhere.remote.record_step(again.handle, "load", {"rows": 4})
    assert kept.value == {"rows": 3}
    assert [step.key for step in elsewhere.remote.steps(again.handle)] == ["step:load#1", "artifact:load#1"]


# -- waits


def test_a_suspended_job_comes_back_with_its_signal(elsewhere: Elsewhere) -> None:
    worker, job = elsewhere.running()
    rest = elsewhere.remote.suspend(job.handle, "approved")
    assert (rest.state, rest.token, rest.again) == ("suspended", None, False)
    assert elsewhere.remote.suspend(job.handle, "approved").again
    assert elsewhere.remote.beat(worker, [job.handle]).lost == (job.handle,)
    assert elsewhere.remote.claim(worker, 1) == []
    elsewhere.app.signal(job.id, "approved", {"by": "ann"})
    again = elsewhere.take(worker)
    assert (again.id, again.attempt) == (job.id, 1)
    answer = elsewhere.remote.suspend(again.handle, "approved")
    assert (answer.state, answer.how, answer.value) == ("running", "signals", {"by": "ann"})
    assert elsewhere.remote.finish(again.handle, Done()).state == "succeeded"


def test_a_signal_that_came_before_lets_the_run_go_on_at_once(elsewhere: Elsewhere) -> None:
    _, job = elsewhere.running()
    elsewhere.app.signal(job.id, "approved", 7)
    elsewhere.app.signal(job.id, "approved", 8)
    assert elsewhere.remote.suspend(job.handle, "approved").value == 7
    assert elsewhere.remote.suspend(job.handle, "approved").value == 7
    assert elsewhere.remote.suspend(job.handle, "approved", step_name="second").value == 8
    assert elsewhere.remote.suspend(job.handle, "approved", step_name="third").state == "suspended"


def test_a_waitpoint_is_answered_by_its_token_alone(elsewhere: Elsewhere) -> None:
    worker, job = elsewhere.running()
    schema = {"type": "object", "required": ["ok"], "properties": {"ok": {"type": "boolean"}}}
    opened = elsewhere.remote.waitpoint(job.handle, "review", expires=600, schema=schema)
    rest = elsewhere.remote.suspend(job.handle, "review", waitpoint=True, expires=600, schema=schema)
    assert (rest.state, rest.token, rest.expires_at) == ("suspended", opened.token, opened.expires_at)
    with pytest.raises(PayloadMismatch):
        elsewhere.app.signal(opened.token, payload={"ok": "yes"})
    elsewhere.app.signal(opened.token, payload={"ok": True})
    again = elsewhere.take(worker)
    answer = elsewhere.remote.suspend(again.handle, "review", waitpoint=True, expires=600, schema=schema)
    assert (answer.how, answer.value) == ("signals", {"ok": True})


def test_a_suspension_repeated_after_a_lost_answer_gives_its_token_again(elsewhere: Elsewhere) -> None:
    worker, job = elsewhere.running()
    rest = elsewhere.remote.suspend(job.handle, "review", waitpoint=True, step_name="first")
    again = elsewhere.remote.suspend(job.handle, "review", waitpoint=True, step_name="first")
    assert rest.token is not None
    assert (again.state, again.again, again.token, again.expires_at) == ("suspended", True, rest.token, rest.expires_at)
    elsewhere.app.signal(again.token, payload=1)
    assert elsewhere.remote.suspend(job.handle, "review", waitpoint=True, step_name="first").token is None
    answer = elsewhere.remote.suspend(elsewhere.take(worker).handle, "review", waitpoint=True, step_name="first")
    assert answer.value == 1


def test_a_run_elsewhere_waits_for_one_signal_of_each_name(elsewhere: Elsewhere) -> None:
    worker, job = elsewhere.running()
    assert elsewhere.remote.suspend(job.handle, "legal", "finance", needed="all").state == "suspended"
    elsewhere.app.signal(job.id, "finance", "f")
    assert elsewhere.remote.claim(worker, 1) == []
    elsewhere.app.signal(job.id, "legal", "l")
    again = elsewhere.take(worker)
    assert elsewhere.remote.suspend(again.handle, "legal", "finance", needed="all").value == ["l", "f"]


def test_a_run_elsewhere_waits_for_signals_of_several_sources(elsewhere: Elsewhere) -> None:
    worker, job = elsewhere.running()
    assert elsewhere.remote.suspend(job.handle, "vote", needed=2, distinct="sources").state == "suspended"
    for source in ("ann", "ann", "bob"):
        assert elsewhere.remote.claim(worker, 1) == []
        elsewhere.app.signal(job.id, "vote", source, source=source)
    again = elsewhere.take(worker)
    assert elsewhere.remote.suspend(again.handle, "vote", needed=2, distinct="sources").value == ["ann", "bob"]


def test_a_run_elsewhere_waits_for_waitpoints_that_it_opened(elsewhere: Elsewhere) -> None:
    worker, job = elsewhere.running()
    first, second = (elsewhere.remote.waitpoint(job.handle, name) for name in ("one", "two"))
    both = {"waitpoints": [first, second.id], "needed": "all"}
    assert elsewhere.remote.suspend(job.handle, **both).state == "suspended"
    elsewhere.app.signal(second.token, payload=2)
    elsewhere.app.signal(first.token, payload=1)
    assert elsewhere.remote.suspend(elsewhere.take(worker).handle, **both).value == [1, 2]


def test_a_run_elsewhere_that_waits_for_nothing_waits_for_an_operator(elsewhere: Elsewhere) -> None:
    worker, job = elsewhere.running()
    assert elsewhere.remote.suspend(job.handle).state == "suspended"
    elsewhere.app.signal(job.id, "anything")
    assert elsewhere.remote.claim(worker, 1) == []
    elsewhere.app.signals.resume(job.id, "go")
    answer = elsewhere.remote.suspend(elsewhere.take(worker).handle)
    assert (answer.how, answer.value) == ("operator", "go")


def test_a_run_elsewhere_cannot_wait_for_the_waitpoint_of_another_job(elsewhere: Elsewhere) -> None:
    worker, job = elsewhere.running()
    other = elsewhere.remote.waitpoint(job.handle, "one")
    elsewhere.remote.finish(job.handle, Done())
    elsewhere.enqueue()
    mine = elsewhere.take(worker)
    with pytest.raises(InvalidInput, match="open one in the job that waits"):
        elsewhere.remote.suspend(mine.handle, waitpoints=[other])
    with pytest.raises(InvalidInput, match="open one in the job that waits"):
        elsewhere.remote.suspend(mine.handle, waitpoints=["none"])
    assert elsewhere.job(mine.id).state is JobState.RUNNING


def test_an_operator_and_a_timeout_can_end_a_wait(here: Elsewhere) -> None:
    worker, job = here.running()
    here.remote.suspend(job.handle, "never")
    here.app.signals.resume(job.id, "go on")
    again = here.take(worker)
    assert here.remote.suspend(again.handle, "never").value == "go on"
    here.remote.suspend(again.handle, "ever", timeout=5, on_timeout="resume")
    here.world.clock.advance(6)
    here.world.run(waking.wake_due)
    assert here.remote.suspend(here.take(worker).handle, "ever").how == "timeout"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 5}, {"pattern": "(a+)+$"}, {"$ref": "#"}, {"anyOf": [{"properties": {"a": {"multipleOf": 0}}}]},
        {"required": "a"}, [1], {"enum": 3}, {"x": "y" * 20_000}, {"minLength": -1},
    ],
    ids=str,
)  # fmt: skip
def test_a_schema_that_could_harm_a_sender_is_refused(here: Elsewhere, schema: Any) -> None:
    _, job = here.running()
    with pytest.raises(InvalidInput):
        here.remote.waitpoint(job.handle, "review", schema=schema)


def test_wrong_terms_of_a_wait_are_refused(here: Elsewhere) -> None:
    _, job = here.running()
    for wrong in (
        {"on_timeout": "explode"},
        {"timeout": -1},
        {"step_name": "a#1/b"},
        {"waitpoint": True, "expires": -1},
        {"waitpoint": True, "waitpoints": ["x"]},
        {"needed": 0},
        {"distinct": "moods"},
        {"delay": -1},
    ):
        with pytest.raises(InvalidInput):
            here.remote.suspend(job.handle, "approved", **wrong)
    with pytest.raises(InvalidInput, match="name what is needed"):
        here.remote.suspend(job.handle, needed="all")
    with pytest.raises(InvalidInput, match="one name"):
        here.remote.suspend(job.handle, "a", "b", waitpoint=True)
    assert here.job(job.id).state is JobState.RUNNING
