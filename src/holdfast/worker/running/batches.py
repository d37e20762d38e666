"""Jobs on their way into one call: collected until the batch is full or its time is over, then started in one slot."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from ...clock import SECOND
from ...errors import HoldfastError
from ...names import check_duration
from ...tasks.task import Task
from .deadlines import Deadline
from .runs import Run


class Batch(Run):
    """One call of a handler for several jobs. As a run it has the first of them; each job has a run of its own."""

    __slots__ = ("gave_up", "open", "sent", "timer", "undecodable")

    def __init__(self, first: Run) -> None:
        super().__init__(first.job, first.task, first.claim, first.taken_at, first.owner)
        self.open: dict[Run, None] = {}
        """Runs of the jobs that have not ended."""
        self.sent: list[Run] = []
        """Runs whose items the handler got, in its order."""
        self.undecodable: list[tuple[Run, HoldfastError]] = []
        self.gave_up: set[Run] = set()
        self.timer: Deadline | None = None
        self.add(first)

    def add(self, run: Run) -> None:
        self.open[run] = None
        run.batch = self

    @property
    def is_to_end(self) -> bool:
        """True if every job in it was asked to end."""
        return all(run.stop.requested for run in self.open)

    def give_up(self, run: Run) -> bool:
        """Note that a job is given up; True if that is so of all."""
        self.gave_up.add(run)
        return self.gave_up.issuperset(self.open)


class Batches:
    """The batches of one worker. Everything here happens on the event loop's thread."""

    def __init__(
        self,
        begin: Callable[[Batch], None],
        later: Callable[[float, Callable[[], None]], Deadline],
        forget: Callable[[Deadline], None],
        may_begin: Callable[[], bool],
        *,
        waits: bool,
    ) -> None:
        """`begin` starts a call, `may_begin` says whether it has a slot. Unless `waits`, none waits for more jobs."""
        self._begin = begin
        self._later = later
        self._forget = forget
        self._may_begin = may_begin
        self._waits = waits
        self._collecting: dict[str, Batch] = {}
        self._ready: deque[Batch] = deque()
        self._running: set[Batch] = set()
        self.items = 0
        """Runs in batches."""

    @property
    def slots(self) -> int:
        """Slots that batches occupy or wait for, one for each call; while one is collected it needs none."""
        return len(self._ready) + len(self._running)

    @property
    def waits_for_slot(self) -> bool:
        """True if a batch is ready and has no slot."""
        return bool(self._ready)

    @property
    def running(self) -> int:
        """Calls under way."""
        return len(self._running)

    def room(self, task: Task[Any, Any], free: int) -> int:
        """Return how many jobs of a task can be collected now, where `free` slots are left."""
        most: int = task.task_options.batch or 0
        if (batch := self._collecting.get(task.name)) is not None:
            return max(0, most - len(batch.open))
        # A full batch that waits for its slot comes first.
        return most if free > 0 and not any(batch.task.name == task.name for batch in self._ready) else 0

    def add(self, run: Run) -> None:
        """Collect a job. A suspect has a call of its own: it would be blamed for a crash that another job causes."""
        self.items += 1
        if run.job.suspect:
            self._start(Batch(run))
            return
        name = run.task.name
        if (batch := self._collecting.get(name)) is None:
            batch = self._collecting[name] = Batch(run)
            if wait := self._wait(run.task):
                batch.timer = self._later(wait, lambda: self._over(batch))
        else:
            batch.add(run)
        if len(batch.open) >= (run.task.task_options.batch or 1):
            self._over(batch)

    def dispatched(self) -> None:
        """Start the batches that do not wait for more jobs than one claim has brought."""
        for batch in [batch for batch in self._collecting.values() if batch.timer is None]:
            self._over(batch)

    def ended(self, run: Run) -> None:
        """Note the end of one job of a batch; the batch ends with the last one."""
        batch: Batch = run.batch
        self.items -= 1
        batch.open.pop(run, None)
        if batch.open:
            return
        self._running.discard(batch)
        if self._collecting.get(batch.task.name) is batch:
            self._drop(batch)
        elif batch in self._ready:
            self._ready.remove(batch)

    def start_ready(self) -> None:
        """Start full batches that waited for a slot."""
        while self._ready and self._may_begin():
            self._start(self._ready.popleft())

    def unbegun(self) -> Iterable[Run]:
        """Return the runs whose call has not begun."""
        return [run for batch in (*self._collecting.values(), *self._ready) for run in batch.open]

    def _wait(self, task: Task[Any, Any]) -> float:
        return check_duration("wait", task.task_options.wait) / SECOND if self._waits else 0.0

    def _over(self, batch: Batch) -> None:
        if self._collecting.get(batch.task.name) is not batch:
            return
        self._drop(batch)
        self._ready.append(batch)
        self.start_ready()

    def _drop(self, batch: Batch) -> None:
        del self._collecting[batch.task.name]
        if batch.timer is not None:
            self._forget(batch.timer)
            batch.timer = None

    def _start(self, batch: Batch) -> None:
        self._running.add(batch)
        self._begin(batch)
