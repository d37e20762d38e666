"""From the first blow to the verdict: rage, heal, drain, stop, check, and say what it came to."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import holdfast
from tests.acceptance.fleet import until
from tests.chaos import ledger
from tests.chaos.check import history, require
from tests.chaos.dials import Figure
from tests.chaos.facts import Facts, read_facts

from .aftermath import ends, refused, wrongs
from .fleet import Fleet
from .nemesis import Nemesis
from .plan import Diary, Plan
from .reckoning import Reckoning, percentile, reckon

ENDS = ("succeeded", "failed", "cancelled", "expired", "skipped")
DRAINED_WITHIN = 180.0
_NAMES = {"sqlite": "SQLite", "postgres": "Postgres"}
_IN_HAND = 4.0
"""Seconds beyond the lease in which an outcome must be recorded, on a machine that has other things to do."""
_RECOVERY = ((0.9, 3.0), (0.99, 12.0))
"""Shares of the jobs that were lost, and the seconds beyond the lease in which they must run again. Two are promised
where there are slots; a busy machine adds its own pauses. At a load of 20 the p99 was 0.7 to 2.6, and once 9."""


def judge(
    app: holdfast.App,
    fleet: Fleet,
    nemesis: Nemesis,
    plan: Plan,
    diary: Diary,
    folder: Path,
    *,
    hint: str,
    figure: Figure,
    heal: Callable[[], None] = lambda: None,
) -> None:
    began = time.monotonic()
    try:
        nemesis.rage(180 + 3 * plan.kills)
        raged = time.monotonic() - began
        heal()
        nemesis.heal()
        log = folder / "workers.log"
        until(lambda: _left(app) == 0, DRAINED_WITHIN, f"everything has ended ({hint})", log)
        drained = time.monotonic() - began - raged
        codes = fleet.stop(60.0)
        assert set(codes.values()) == {0}, f"workers leave in order: {codes}"
        facts = read_facts(app.open(), ledger.read(folder / "ledger"))
        cost = reckon(facts, diary, plan.lease, _IN_HAND)
        # A worker tells of each outcome that the store has refused it.
        late = refused(facts) + Counter(outcome=log.read_text().count("came too late"))
        _tell(facts, diary, cost, late, f"{raged:.1f} s of storm, {drained:.1f} s of drain")
        require(facts, drained=True, hint=hint)
        require_all(facts, hint)
        _check_costs(cost, plan)
    except BaseException:
        _keep(folder, hint)
        raise
    _note(figure, diary, cost, app.open().backend)
    figure(len(facts.jobs), f"jobs on {_NAMES[app.open().backend]}")
    figure(late.total(), f"late writes refused on {_NAMES[app.open().backend]}")


def require_all(facts: Facts, hint: str) -> None:
    """Fail with what is wrong, and the whole history of the first job of which it is."""
    if found := wrongs(facts):
        lines = [f"{len(found)} wrongs ({hint})", *(f"{what}: {job_id}" for what, job_id in found[:10])]
        raise AssertionError("\n".join([*lines, *history(facts, found[0][1])]))


def _left(app: holdfast.App) -> int:
    return sum(count.jobs for count in app.jobs.counts() if count.state not in ENDS)


def _check_costs(cost: Reckoning, plan: Plan) -> None:
    assert not cost.excess, cost.excess[:5]
    assert max(cost.repeated.values(), default=0) <= plan.concurrency
    # Of fewer there is no such thing as one in a hundred.
    for share, slack in _RECOVERY if len(cost.kills) >= 100 else ():
        slow = percentile(cost.kills, share)
        assert slow <= plan.lease + slack, f"p{100 * share:.0f} of recovery is {slow:.2f} s: {cost.slowest[:10]}"


def _tell(facts: Facts, diary: Diary, cost: Reckoning, late: Counter[str], times: str) -> None:
    print(f"\n{times}")
    print(f"{dict(diary.counts)}, zombies: {diary.zombies}")
    print(f"{len(facts.jobs)} jobs ended as {ends(facts)}; late and refused: {dict(late)}")
    for what in ("kills", "freezes", "disturbed"):
        values: list[float] = getattr(cost, what)
        p50, p90, p99 = (percentile(values, share) for share in (0.5, 0.9, 0.99))
        most = max(values, default=0.0)
        print(f"recovery, {what}: n {len(values)}, p50 {p50:.2f} s, p90 {p90:.2f} s, p99 {p99:.2f} s, max {most:.2f} s")
    print(f"slowest: {cost.slowest[:8]}")
    per_kill = sum(cost.repeated.values()) / max(1, len(diary.kills))
    most = max(cost.repeated.values(), default=0)
    print(f"repeated runs: {per_kill:.2f} a kill, at most {most}; lost for other reasons: {cost.unexplained}")


def _note(figure: Figure, diary: Diary, cost: Reckoning, backend: str) -> None:
    on = _NAMES[backend]
    figure(len(diary.kills), f"kills on {on}")
    figure(diary.zombies, f"frozen workers on {on}")
    for what in ("restart", "partition"):
        if count := diary.counts.get(what):
            figure(count, f"{what}s on {on}")
    figure(round(percentile(cost.kills, 0.5), 2), f"s recovery p50 on {on}")
    figure(round(percentile(cost.kills, 0.99), 2), f"s recovery p99 on {on}")
    figure(round(sum(cost.repeated.values()) / max(1, len(diary.kills)), 2), f"repeated runs per kill on {on}")
    figure(max(cost.repeated.values(), default=0), f"repeated runs at most on {on}")


def _keep(folder: Path, hint: str) -> None:
    print(f"reproduce: {hint}")
    for name in ("storm.log", "workers.log"):
        if (file := folder / name).exists():
            print(f"-- the end of {name}\n{file.read_text()[-6000:]}")
