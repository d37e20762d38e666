"""What must hold between a store and the ledger, which knows what really happened outside it."""

from __future__ import annotations

from collections.abc import Iterator

from .facts import Facts

Wrong = Iterator[tuple[str, str]]


def every_acknowledged_job_is_there(facts: Facts) -> Wrong:
    for line in facts.ledger:
        if line.mark == "Q" and line.job not in facts.jobs and line.job not in facts.forgotten:
            yield "its enqueue was acknowledged, and it is gone", line.job


def a_recorded_success_really_ran(facts: Facts) -> Wrong:
    """Of jobs whose handlers write here. The run that is recorded is one that has done its effect."""
    for job_id, placed in facts.lines.items():
        job = facts.jobs.get(job_id)
        done = {line.epoch for _, line in placed if line.mark == "E"}
        began = {line.epoch for _, line in placed if line.mark == "S"}
        if job is not None and began and job.state == "succeeded" and job.finished_epoch not in done:
            yield f"its success is of epoch {job.finished_epoch}, but effects are of {sorted(done)}", job_id


def one_handler_for_each_claim(facts: Facts) -> Wrong:
    for job_id, placed in facts.lines.items():
        job = facts.jobs.get(job_id)
        epochs = [line.epoch for _, line in placed if line.mark == "S"]
        if len(set(epochs)) != len(epochs):
            yield f"two handlers ran under one claim: {epochs}", job_id
        if job is not None and epochs and max(epochs) > job.epoch:
            yield f"a handler ran under epoch {max(epochs)}, which the store does not know", job_id


def every_run_is_accounted_for(facts: Facts) -> Wrong:
    """Claims are attempts and those that were given back: each run that began is in the history, or the last."""
    durable = {row.job_id for row in facts.of("step")} | {row.job_id for row in facts.of("wait")}
    for job_id, placed in facts.lines.items():
        job, history = facts.jobs.get(job_id), facts.attempts.get(job_id, [])
        # A pause in the middle of a run leaves no row, nor does a forced cancel; and a history has an end.
        if job is None or job_id in durable or job.state == "cancelled" or len(history) >= 32 or job.generation > 0:
            continue
        known = {row.epoch for row in history} | {job.finished_epoch, job.epoch}
        if unknown := {line.epoch for _, line in placed if line.mark == "S"} - known:
            yield f"it ran under {sorted(unknown)}, of which the store knows nothing", job_id


def no_start_after_a_cancel(facts: Facts) -> Wrong:
    for job_id, placed in facts.lines.items():
        ended = next((at for at, line in placed if line.mark == "C"), None)
        job = facts.jobs.get(job_id)
        if ended is None or (job is not None and job.generation > 0):
            continue
        if any(line.mark == "S" and at > ended for at, line in placed):
            yield "a handler began after its cancel was acknowledged", job_id
        if job is not None and job.state != "cancelled":
            yield f"its cancel was acknowledged, and it is {job.state}", job_id


def members_run_after_what_they_wait_for(facts: Facts) -> Wrong:
    joins = {(row.job_id, row.kind): row.mode for row in facts.of("join")}
    for edge in facts.of("edge"):
        if edge.kind != "flow" or edge.policy != "success" or joins.get((edge.downstream, edge.kind)) != "all":
            continue
        began = [at for at, line in facts.lines.get(edge.downstream, ()) if line.mark == "S"]
        done = [at for at, line in facts.lines.get(edge.upstream, ()) if line.mark == "E"]
        if began and (not done or min(began) < min(done)):
            yield f"it began before {edge.upstream} had done its work", edge.downstream


def recorded_steps_are_not_done_again(facts: Facts) -> Wrong:
    """What a later run does again was not recorded by an earlier one."""
    recorded = {(row.job_id, row.name): row.epoch for row in facts.of("step")}
    for job_id, placed in facts.lines.items():
        job = facts.jobs.get(job_id)
        for _, line in placed if job is not None and job.generation == 0 else ():
            if line.mark.startswith("step:"):
                epoch = recorded.get((job_id, line.mark.removeprefix("step:")))
                if epoch is not None and line.epoch > epoch:
                    yield f"{line.mark} was recorded in epoch {epoch} and done again in {line.epoch}", job_id
