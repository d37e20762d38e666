"""What the kills cost: how soon each lost job began anew, and how many runs were repeated for each kill."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.chaos.facts import Facts, grouped
from tests.chaos.ledger import Line

from .aftermath import lost_runs
from .plan import Blow, Diary


@dataclass(slots=True)
class Reckoning:
    """Recoveries are seconds from the blow to the next start of a job that was lost by it."""

    kills: list[float] = field(default_factory=list)
    freezes: list[float] = field(default_factory=list)
    disturbed: list[float] = field(default_factory=list)
    """Those during which the store was out of reach."""
    slowest: list[tuple[float, str, int, str]] = field(default_factory=list)
    repeated: Counter[int] = field(default_factory=Counter)
    """Runs that were repeated, by the process that was killed."""
    excess: list[str] = field(default_factory=list)
    """Runs that were repeated though they had ended long before the kill."""
    unexplained: int = 0
    """Lost runs of processes that nobody touched."""


def reckon(facts: Facts, diary: Diary, lease: float, slack: float) -> Reckoning:
    found = Reckoning()
    kills = grouped(diary.kills, lambda blow: blow.pid)
    for row in lost_runs(facts):
        lines = [line for _, line in facts.lines.get(row.job_id, [])]
        began = next((line for line in lines if line.mark == "S" and line.epoch == row.epoch), None)
        pid = began.pid if began else diary.pids.get(row.worker, 0)
        # The kernel gives pids again, and a worker that was cut off may be killed later: the kill between both.
        kill = next((one for one in kills.get(pid, ()) if row.started_at < one.at * 1e6 < row.ended_at), None)
        freezes = [one for one in diary.freezes if one.pid == pid and one.at * 1e6 > row.started_at]
        blow = _cause(kill, freezes, row.ended_at / 1e6 - lease)
        if blow is None:
            found.unexplained += 1
            continue
        again = min((line.at for line in lines if line.mark == "S" and line.epoch > row.epoch), default=None)
        if blow in diary.kills and began is not None and again is not None:
            found.repeated[pid] += 1
            _check_in_hand(found, diary, lines, row.epoch, blow, lease + slack)
        if again is not None:
            _measure(found, diary, blow, again, row.job_id)
    found.slowest.sort(reverse=True)
    return found


def _cause(kill: Blow | None, freezes: list[Blow], before: float) -> Blow | None:
    """The freeze during which it was given up, or soon after: what the frozen one had locked is left for later."""
    return next((one for one in freezes if before <= one.until), kill)


def _measure(found: Reckoning, diary: Diary, blow: Blow, again: float, job_id: str) -> None:
    took = again - blow.at
    disturbed = any(began < again and blow.at < ended for began, ended in diary.outages)
    chosen = found.disturbed if disturbed else found.freezes if blow.until else found.kills
    chosen.append(took)
    found.slowest.append((round(took, 2), job_id, blow.pid, "disturbed" if disturbed else ""))


def _check_in_hand(found: Reckoning, diary: Diary, lines: list[Line], epoch: int, blow: Blow, time: float) -> None:
    """What had ended was recorded before its worker was killed, unless there was not the time or the store was away."""
    ended = next((line.at for line in lines if line.mark == "E" and line.epoch == epoch), None)
    if ended is None or any(began < blow.at and ended < back for began, back in diary.outages):
        return
    if ended < blow.at - time:
        found.excess.append(f"{lines[0].job} ended {blow.at - ended:.2f} s before process {blow.pid} was killed")


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
