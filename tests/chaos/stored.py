"""What must hold among the rows of a store at every moment, where SQL alone does not say it."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.clock import SECOND
from holdfast.rules.signals import Note, chosen
from holdfast.storage.ops.signals.suspension import decode_terms

from .facts import Facts, grouped

Wrong = Iterator[tuple[str, str]]

ENDS = frozenset({"succeeded", "failed", "cancelled", "expired", "skipped"})
_GIVEN_BACK = frozenset({"throttled", "parked", "released", "snoozed", "suspended"})
"""Ends of runs that cost no attempt."""
_KEPT_ATTEMPTS = 32
_MET = {
    "success": {"succeeded"},
    "failure": {"failed", "expired"},
    "any": ENDS,
}


def a_success_is_the_only_end(facts: Facts) -> Wrong:
    for job in facts.jobs.values():
        if job.state != "succeeded":
            continue
        for row in facts.attempts.get(job.id, ()):
            if row.epoch == job.finished_epoch:
                yield f"the run that succeeded also ended as {row.outcome}", job.id
            elif row.epoch > job.finished_epoch:
                yield "a run was recorded after the success", job.id
        if job.attempts < 1:
            yield "it succeeded without an attempt", job.id


def attempts_are_counted(facts: Facts) -> Wrong:
    """A claim counts an attempt; what was given back does not. So those that count are in the history, or the last."""
    for job in facts.jobs.values():
        rows = facts.attempts.get(job.id, [])
        if len(rows) >= _KEPT_ATTEMPTS:
            continue
        counted = sum(row.generation == job.generation and row.outcome not in _GIVEN_BACK for row in rows)
        last = {1} if job.state in ("running", "succeeded") else {0, 1} if job.state == "cancelled" else {0}
        if job.attempts - counted not in last:
            yield f"{job.attempts} attempts are counted, but {counted} are in the history of a {job.state} job", job.id


def nobody_runs_under_a_dead_worker_for_ever(facts: Facts) -> Wrong:
    """A running job has an owner whose row is there, and a claim by which that knows it."""
    owners = {worker.id for worker in facts.of("worker")}
    for job in facts.jobs.values():
        if job.state == "running" and (job.owner not in owners or job.claim is None):
            yield f"it runs under {job.owner}, of whom nothing is known", job.id


def members_start_after_what_they_wait_for(facts: Facts) -> Wrong:
    joins = {(row.job_id, row.kind): row for row in facts.of("join")}
    for edge in facts.of("edge"):
        down, up = facts.jobs.get(edge.downstream), facts.jobs.get(edge.upstream)
        join = joins.get((edge.downstream, edge.kind))
        if edge.kind != "flow" or not edge.applied or join is None or join.mode != "all" or down is None or up is None:
            continue
        if down.generation == up.generation == 0 and down.started_at is not None and up.state not in _MET[edge.policy]:
            yield f"it has started, though {up.id} is {up.state}", down.id


def signals_are_taken_in_order(facts: Facts) -> Wrong:
    """Of those of one name and sender, none is passed over by a later one."""
    for job_id, letters in grouped(facts.of("signal"), lambda row: row.job_id).items():
        seqs = sorted(row.seq for row in letters)
        if len(set(seqs)) != len(seqs):
            yield "two signals have one number", job_id
        for row in letters:
            if row.waitpoint is None and row.taken_by is not None and any(
                other.seq < row.seq and other.taken_by is None and (other.name, other.source) == (row.name, row.source)
                for other in letters
            ):  # fmt: skip
                yield f"signal {row.seq} was taken before an earlier one of its name", job_id


def nobody_sleeps_through_its_signal(facts: Facts) -> Wrong:
    mail = grouped((row for row in facts.of("signal") if row.taken_by is None), lambda row: row.job_id)
    for wait in facts.of("wait"):
        letters = sorted(mail.get(wait.job_id, []), key=lambda row: row.seq)
        notes = [Note(row.seq, row.name, row.waitpoint, row.source) for row in letters]
        job = facts.jobs.get(wait.job_id)
        asleep = job is not None and job.state == "suspended"
        if asleep and chosen(decode_terms(wait.condition).condition, notes) is not None:
            yield f"what it waits for ({wait.key}) has come, and it sleeps", wait.job_id


def steps_are_of_runs_that_were(facts: Facts) -> Wrong:
    for step in facts.of("step"):
        job = facts.jobs.get(step.job_id)
        if job is not None and step.epoch > job.epoch:
            yield f"step {step.key} is of epoch {step.epoch}, which has not come yet", job.id


def a_stream_is_of_one_run_after_the_other(facts: Facts) -> Wrong:
    """A run whose attempt was given back leaves its number to the next one; none is ever followed by an earlier one."""
    for job_id, frames in grouped(facts.of("frame"), lambda row: row.job_id).items():
        for kind in (0, 1):
            said = sorted((row for row in frames if row.best_effort == kind), key=lambda row: (row.seq, row.live))
            runs = [(row.generation, row.attempt) for row in said]
            if runs != sorted(runs):
                yield "a run spoke after the one that followed it had begun to", job_id


def budgets_are_kept(facts: Facts) -> Wrong:
    reserved: dict[tuple[str, str], int] = {}
    for row in facts.of("reservation"):
        reserved[row.budget, row.dimension] = reserved.get((row.budget, row.dimension), 0) + row.amount
    names = {budget.key: budget.name for budget in facts.of("budget")}
    for line in facts.of("budget_line"):
        held = reserved.get((line.budget, line.dimension), 0)
        if names.get(line.budget) in facts.strict_budgets and line.hard is not None and line.spent + held > line.hard:
            yield f"{line.spent} spent and {held} reserved of {line.hard} {line.dimension}", line.budget


def ends_are_told(facts: Facts) -> Wrong:
    """Whatever ended is in the log, in the same commit, unless its queue is silent or the log was pruned."""
    silent = {queue.name for queue in facts.of("queue") if queue.events == "off"}
    told = set(facts.told)
    pruned = any(mark.name == "pruned" and mark.seq > 0 for mark in facts.of("event_mark"))
    for job in () if pruned else facts.jobs.values():
        if job.state in ENDS and job.queue not in silent and (job.id, job.state) not in told:
            yield f"nobody was told that it {job.state}", job.id


def nothing_is_left_to_do(facts: Facts) -> Wrong:
    """Nothing runs, nothing is due, no flow has work pending; what waits has somebody or some time to wait for."""
    closed = {
        queue.name for queue in facts.of("queue") if queue.state != "active" or (queue.cool_until or 0) > facts.now
    }
    closed |= facts.unserved
    for job in facts.jobs.values():
        if job.state == "running":
            yield "it still runs", job.id
        elif job.due in (1, 3) and job.queue not in closed:
            yield "it is due and nobody takes it", job.id
        elif job.due == 0 and job.not_before <= facts.now - SECOND and job.queue not in closed:
            yield "its time has come and nobody takes it", job.id
    for hop in facts.of("hop"):
        yield "its end has not been told to those who wait for it", hop.job_id
