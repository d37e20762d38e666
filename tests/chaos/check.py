"""Whether the promises hold: one pure function over what a store holds and what was seen outside it.

    require(read_facts(store, ledger.read(path)))

What can be asked of the store in SQL is asked by `holdfast db verify`; here is what needs a program or a witness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from . import seen, stored
from .facts import Facts


@dataclass(frozen=True, slots=True)
class Violation:
    """Which promise is broken, how, and by what: a job mostly."""

    promise: str
    what: str
    subject: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.what} ({self.subject})"


Rule = Callable[[Facts], Iterator[tuple[str, str]]]
"""What is wrong, and with which job."""

RULES: dict[Rule, str] = {
    stored.a_success_is_the_only_end: "I3",
    stored.attempts_are_counted: "I5",
    stored.nobody_runs_under_a_dead_worker_for_ever: "I7",
    stored.members_start_after_what_they_wait_for: "I11",
    stored.signals_are_taken_in_order: "I12",
    stored.nobody_sleeps_through_its_signal: "I12",
    stored.a_stream_is_of_one_run_after_the_other: "I13",
    stored.steps_are_of_runs_that_were: "I14",
    stored.budgets_are_kept: "I15",
    stored.ends_are_told: "I16",
    seen.every_acknowledged_job_is_there: "I1",
    seen.a_recorded_success_really_ran: "I3",
    seen.one_handler_for_each_claim: "I4",
    seen.every_run_is_accounted_for: "I5",
    seen.no_start_after_a_cancel: "I8",
    seen.members_run_after_what_they_wait_for: "I11",
    seen.recorded_steps_are_not_done_again: "I14",
}


def check(facts: Facts, *, drained: bool = False) -> list[Violation]:
    """Every broken promise. `drained`: all that time and workers can move has been moved, so nothing may be left."""
    found = [
        Violation("verify", f"not so: {finding.rule}", subject)
        for finding in facts.findings
        for subject in finding.broken_by
    ]
    for rule, promise in RULES.items():
        found += [Violation(promise, what, subject) for what, subject in rule(facts)]
    if drained:
        found += [Violation("I7", what, subject) for what, subject in stored.nothing_is_left_to_do(facts)]
    return found


def require(facts: Facts, *, drained: bool = False, hint: str = "") -> None:
    """Fail with the first violation and the whole history of its job."""
    if found := check(facts, drained=drained):
        raise AssertionError(report(facts, found, hint))


def report(facts: Facts, found: list[Violation], hint: str = "") -> str:
    first = found[0]
    others = [str(one) for one in found[1:10]]
    lines = [f"{len(found)} violations, first: {first}", *([f"reproduce: {hint}"] if hint else []), *others]
    return "\n".join([*lines, f"-- the history of {first.subject}", *history(facts, first.subject)])


def history(facts: Facts, subject: str) -> list[str]:
    """Every row that names it, and every line of the ledger, in order."""
    rows = [str(row) for table in facts.tables.values() for row in table if subject in row]
    told = [str(row) for row in (*facts.of("event"), *facts.of("event_inbox")) if row.body and subject in row.body]
    return [*rows, *told, *(str(line) for _, line in facts.lines.get(subject, []))]
