"""What must be so after a storm, beyond what every check asks: how jobs ended, and that nothing late got through."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.chaos.facts import Facts, Record, grouped

from .work import FRAMES

Wrong = Iterator[tuple[str, str]]
_EACH_END_IS_TOLD = {"plain", "on_thread", "flaky", "member", "narrate", "narrate_on_thread"}
"""Tasks whose jobs neither pause, nor are turned away at a limit, of which no history tells."""
_CRASH_CAP = 3


def wrongs(facts: Facts) -> list[tuple[str, str]]:
    rules = (every_end_has_a_reason, every_epoch_is_known, results_are_of_the_last_run, streams_are_whole, nothing_late)
    return [wrong for rule in rules for wrong in rule(facts)]


def every_end_has_a_reason(facts: Facts) -> Wrong:
    """They succeed, unless somebody cancelled them, or their process died under them alone again and again."""
    marks = {(line.job, line.mark) for line in facts.ledger}
    ends = {job.id: job.state for job in facts.jobs.values()}
    before = grouped(facts.of("edge"), lambda edge: edge.downstream)
    for job in facts.jobs.values():
        asked = (job.id, "C") in marks or (job.id, "asked") in marks
        skipped = job.state == "skipped" and any(ends[edge.upstream] != "succeeded" for edge in before.get(job.id, ()))
        lost = job.state == "failed" and job.reason == "worker_lost" and job.crashes >= _CRASH_CAP
        cancelled = job.state == "cancelled" and (asked or job.cancel_at is not None)
        if not (job.state == "succeeded" or cancelled or skipped or lost):
            yield f"it ended {job.state} ({job.reason}) for no reason", job.id


def every_epoch_is_known(facts: Facts) -> Wrong:
    """Each claim and each end of ownership is one epoch: nothing was recorded beside them, or twice."""
    for job in facts.jobs.values():
        history = facts.attempts.get(job.id, [])
        if job.state == "succeeded" and job.task in _EACH_END_IS_TOLD and job.epoch != 2 * (len(history) + 1):
            yield f"epoch {job.epoch} after {len(history)} ends before the last", job.id


def results_are_of_the_last_run(facts: Facts) -> Wrong:
    for job in facts.jobs.values():
        if job.state == "succeeded" and job.result != f'"{job.id}:{job.finished_epoch}"':
            yield f"its result is {job.result}, its last run {job.finished_epoch}", job.id


def streams_are_whole(facts: Facts) -> Wrong:
    """Numbers without gaps, runs one after the other, each from its beginning, the last one whole."""
    for job_id, frames in grouped(facts.of("frame"), lambda frame: frame.job_id).items():
        frames.sort(key=lambda frame: frame.seq)
        said = [tuple(map(int, bytes(frame.data).decode().strip('"').split())) for frame in frames]
        if [frame.seq for frame in frames] != list(range(1, len(frames) + 1)):
            yield "its frames have gaps", job_id
        if said != sorted(said) or any(n != i for run in _runs(said) for i, n in enumerate(run)):
            yield f"its runs speak across each other: {said}", job_id
        job = facts.jobs[job_id]
        if job.state == "succeeded" and sum(epoch == job.finished_epoch for epoch, _ in said) != FRAMES:
            yield f"its last run did not say all: {said}", job_id


def nothing_late(facts: Facts) -> Wrong:
    """What was written by a run that was lost was written before it was."""
    ended = {(row.job_id, row.epoch): row for row in facts.of("attempt") if row.outcome == "lost"}
    by_attempt = {(row.job_id, row.generation, row.attempt): row for row in ended.values()}
    for step in facts.of("step"):
        if (row := ended.get((step.job_id, step.epoch))) is not None and step.ended_at > row.ended_at:
            yield f"step {step.name} of epoch {step.epoch} was taken after that run was lost", step.job_id
    for frame in facts.of("frame"):
        row = by_attempt.get((frame.job_id, frame.generation, frame.attempt))
        if row is not None and frame.at > row.ended_at:
            yield f"frame {frame.seq} of attempt {frame.attempt} was taken after that run was lost", frame.job_id


def ends(facts: Facts) -> dict[str, int]:
    return dict(Counter(job.state for job in facts.jobs.values()))


def _runs(said: list[tuple[int, ...]]) -> list[list[int]]:
    found: dict[int, list[int]] = {}
    for epoch, n in said:
        found.setdefault(epoch, []).append(n)
    return list(found.values())


def refused(facts: Facts) -> Counter[str]:
    """What zombies were refused, by kind, where their handlers were told."""
    return Counter(line.mark.removeprefix("late:") for line in facts.ledger if line.mark.startswith("late:"))


def lost_runs(facts: Facts) -> list[Record]:
    return [row for row in facts.of("attempt") if row.outcome == "lost"]
