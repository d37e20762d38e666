"""Run a program's jobs repeatedly, each time with a kill at a different commit, and compare the results.

The worker is killed: it loses its store at that commit, so that nothing it still does is kept. Its jobs are given to
another worker, as a rescue would do, which resumes from what is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from ..clock import SECOND, ManualClock
from ..model.answers import JobFilter
from ..model.jobs import JobRecord, JobState
from ..model.outcomes import Finish, Released
from ..storage.ops import steps
from ..storage.ops.jobs import claims, finishing, queries
from ..storage.ops.signals import waking
from ..storage.port import ListOp, Op, Store, Tx
from ..tasks.task import JobRequest

if TYPE_CHECKING:
    from ..app import App
    from ..rules.steps import Call

T = TypeVar("T")
Item = TypeVar("Item")

Start: TypeAlias = "JobRequest[Any] | Callable[[App], object]"
_MOST_ROUNDS: Final = 1_000
_MOST_JOBS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Explored:
    """The result of an exploration."""

    kills: int
    """The number of kills: just before each commit of the worker, and just after."""
    ends: dict[str, int]
    """The number of jobs in each final state; the same in every run, unless something else was compared."""
    repeated: dict[str, int]
    """Steps that were in flight at a kill, by task and key, and how often they ran again. They must be repeatable."""


class Killed(BaseException):
    """The worker was killed. Nothing that it still does counts."""


@dataclass(frozen=True, slots=True)
class Kill:
    """The kill of the worker: the number of the commit, and whether that commit is kept."""

    at: int = 0
    is_kept: bool = True

    def __str__(self) -> str:
        return f"killed {'after' if self.is_kept else 'before'} commit {self.at}"


class Mortal:
    """A store that a worker loses permanently at a commit."""

    def __init__(self, store: Store, death: Kill) -> None:
        self._store = store
        self._death = death
        self._is_dead = False
        self.is_armed = False
        """True while the worker runs: commits of others are not counted."""
        self.commits = 0
        """Commits of the worker."""
        self.writes = 0
        """Commits of all."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def revive(self) -> None:
        """Restore the store for the next worker, which is not killed."""
        self._is_dead, self._death = False, Kill()

    def write(self, op: Op[T]) -> T:
        return self._committed(self._committing().write(op))

    async def awrite(self, op: Op[T]) -> T:
        return self._committed(await self._committing().awrite(op))

    def write_list(self, op: ListOp[Item, T]) -> list[T]:
        return self._committed(self._committing().write_list(op))

    async def awrite_list(self, op: ListOp[Item, T]) -> list[T]:
        return self._committed(await self._committing().awrite_list(op))

    def read(self, op: Op[T]) -> T:
        return self._alive().read(op)

    async def aread(self, op: Op[T]) -> T:
        return await self._alive().aread(op)

    def _alive(self) -> Store:
        if self._is_dead:
            raise Killed
        return self._store

    def _committing(self) -> Store:
        self.writes += 1
        self.commits += self.is_armed
        if self.is_armed and self.commits == self._death.at and not self._death.is_kept:
            self._is_dead = True
        return self._alive()

    def _committed(self, answer: T) -> T:
        if self.is_armed and self.commits >= self._death.at > 0:
            self._is_dead = True
        self._alive()
        return answer


@dataclass(slots=True)
class _Trial:
    """One run of the program, with at most one kill."""

    app: App
    clock: ManualClock
    mortal: Mortal
    on_idle: Callable[[App], object] | None
    performed: Counter[str] = field(default_factory=Counter)
    twice: list[str] = field(default_factory=list)
    """Steps that ran again although they were recorded."""
    was_killed: bool = False
    ends: dict[str, int] = field(default_factory=dict)

    async def run(self) -> None:
        for _ in range(_MOST_ROUNDS):
            if not await self._work():
                self.was_killed = True
                self.mortal.revive()
                await self.mortal.awrite(Op(_hand_back))
            elif not await self._pass_time() and not self._call_on_idle():
                return
        raise AssertionError(f"the jobs have not come to an end after {_MOST_ROUNDS:,} rounds")

    async def _work(self) -> bool:
        """Run what is due; False if the worker was killed."""
        self.mortal.is_armed = True
        try:
            await self.app.adrain(webhooks=False)
        except Killed:
            return False
        finally:
            self.mortal.is_armed = False
        return True

    async def _pass_time(self) -> bool:
        """Advance the clock to the next time at which a job is due or a wait times out."""
        waits = [await self.mortal.aread(Op(claims.next_due)), await self.mortal.aread(Op(waking.next_wake))]
        known = [wait for wait in waits if wait is not None]
        if known:
            self.clock.advance(max(0, min(known)) / SECOND)
        return bool(known)

    def _call_on_idle(self) -> bool:
        """Call `on_idle`, when only a signal could let a job continue."""
        if self.on_idle is None or all(job.state.is_terminal for job in self.jobs()):
            return False
        before = self.mortal.writes
        self.on_idle(self.app)
        return self.mortal.writes > before

    async def watch(self, durable: Any, call: Call) -> None:
        """Record that a step is about to run."""
        job_id, key = durable.info.id, call.key
        self.performed[f"{durable.info.task} {key} of {job_id}"] += 1
        if self.mortal.read(Op(lambda tx: steps.find(tx, job_id, key))) is not None:
            self.twice.append(f"{durable.info.task} {key}")

    def jobs(self) -> list[JobRecord]:
        return self.mortal.read(Op(lambda tx: queries.list_jobs(tx, JobFilter(limit=_MOST_JOBS))))

    def repeated(self) -> Counter[str]:
        return Counter({what.rpartition(" of ")[0]: n - 1 for what, n in self.performed.items() if n > 1})


async def explore(
    app: App,
    start: Start,
    *,
    on_idle: Callable[[App], object] | None,
    outcome: Callable[[App], object] | None,
    store: Callable[[], str | PathLike[str]],
) -> Explored:
    """Run once to its end, then once for each commit of that run."""
    expected, first = await _live_once(app, start, Kill(), on_idle, outcome, store())
    repeated: Counter[str] = Counter()
    kills = 0
    for death in (Kill(at, is_kept) for at in range(1, first.mortal.commits + 1) for is_kept in (False, True)):
        found, trial = await _live_once(app, start, death, on_idle, outcome, store())
        kills += trial.was_killed
        repeated += trial.repeated()
        if trial.twice:
            raise AssertionError(f"{death}, {', '.join(trial.twice)} ran again though it was recorded")
        if found != expected:
            raise AssertionError(f"{death}, it ends differently:{_difference(expected, found)}")
    return Explored(kills, first.ends, dict(repeated))


async def _live_once(
    app: App,
    start: Start,
    death: Kill,
    on_idle: Callable[[App], object] | None,
    outcome: Callable[[App], object] | None,
    store: str | PathLike[str],
) -> tuple[object, _Trial]:
    clock = ManualClock()
    with app.override_store(store, clock=clock):
        trial = _Trial(app, clock, Mortal(app.open(), death), on_idle)
        with _in_place(app, trial):
            if isinstance(start, JobRequest):
                await app.aenqueue(start)
            else:
                start(app)
            await trial.run()
            trial.ends = dict(Counter(str(job.state) for job in trial.jobs()))
            return (outcome or _ends)(app), trial


@contextmanager
def _in_place(app: App, trial: _Trial) -> Iterator[None]:
    """Make the app use the trial's store, and report its steps."""
    app.__dict__.update(_opened=trial.mortal, _on_step=trial.watch)
    try:
        yield
    finally:
        app.__dict__.pop("_on_step")


async def _hand_back(tx: Tx) -> None:
    running = await queries.list_jobs(tx, JobFilter(state=JobState.RUNNING, limit=_MOST_JOBS))
    for job in running:
        await finishing.finish(tx, job.owner or "", [Finish(job.id, job.epoch, Released("orphan"))])


def _ends(app: App) -> object:
    """Return the task, arguments, state and result of every job."""
    jobs = app.jobs.find(JobFilter(limit=_MOST_JOBS))
    return sorted((job.task, job.payload, str(job.state), job.result or "") for job in jobs)


def _difference(expected: object, found: object) -> str:
    if not isinstance(expected, list) or not isinstance(found, list):
        return f"\n  without a kill {expected!r}\n  with it        {found!r}"
    lost = [f"\n  - {item}" for item in expected if item not in found]
    new = [f"\n  + {item}" for item in found if item not in expected]
    return "".join(lost + new) or f"\n  {len(expected)} jobs without a kill, {len(found)} with it"
