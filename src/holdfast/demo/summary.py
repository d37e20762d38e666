"""The demo's last words: counts, rates, latencies, and what was rescued."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from ..clock import SECOND
from ..model.job import JobRecord
from . import tasks
from .audit import Books
from .plan import Run


@dataclass(frozen=True, slots=True)
class Summary:
    """Figures of one run. Rates are jobs per second; latencies, from enqueue to start, milliseconds."""

    jobs: int
    states: dict[str, int]
    queues: dict[str, dict[str, int]]
    seconds: float
    backlog_rate: float
    latency_p50_ms: float
    latency_p99_ms: float
    retried: int
    rescued: int
    rescue_seconds: float
    faults: list[str]

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def summarise(run: Run, books: Books, seconds: float, faults: list[str]) -> Summary:
    jobs = list(books.jobs.values())
    waits = sorted(_wait(books.jobs[id]) for id in run.singles if id in books.jobs)
    return Summary(
        jobs=len(jobs),
        states=_states(jobs),
        queues={queue: _states(job for job in jobs if job.queue == queue) for queue in tasks.QUEUES},
        seconds=round(seconds, 2),
        backlog_rate=round(_rate([books.jobs[id] for id in run.backlog if id in books.jobs]), 1),
        latency_p50_ms=_percentile(waits, 0.50),
        latency_p99_ms=_percentile(waits, 0.99),
        retried=sum(job.attempts > 1 and job.id not in books.lost for job in jobs),
        rescued=len(books.lost),
        rescue_seconds=round(run.mended_at - run.killed_at, 2),
        faults=faults,
    )


def show(summary: Summary, console: Console) -> None:
    names = sorted(summary.states)
    table = Table(box=box.SIMPLE_HEAD, title="2,000 jobs", title_justify="left", title_style="bold", pad_edge=False)
    table.add_column("queue")
    for name in names:
        table.add_column(name, justify="right")
    for queue, states in summary.queues.items():
        table.add_row(queue, *(f"{states.get(name, 0):,}" for name in names))
    table.add_section()
    table.add_row("all", *(f"{summary.states[name]:,}" for name in names), style="bold")
    console.print(table)
    facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for fact in _facts(summary):
        facts.add_row(*fact)
    console.print(facts)
    console.print()


def _facts(summary: Summary) -> list[tuple[str, str]]:
    return [
        ("throughput of the backlog", f"{summary.backlog_rate:,.0f} jobs/s"),
        ("from enqueue to start", f"p50 {summary.latency_p50_ms:.1f} ms, p99 {summary.latency_p99_ms:.1f} ms"),
        ("retried, then succeeded", f"{summary.retried - summary.states.get('failed', 0):,}"),
        (
            "rescued from the killed worker",
            f"{summary.rescued:,}, all done {summary.rescue_seconds:.1f} s after the kill",
        ),
        ("the whole demo", f"{summary.seconds:.1f} s"),
    ]


def _states(jobs: Iterable[JobRecord]) -> dict[str, int]:
    return dict(sorted(Counter(str(job.state) for job in jobs).items()))


def _wait(job: JobRecord) -> float:
    return ((job.started_at or job.created_at) - job.created_at) / 1_000


def _rate(jobs: list[JobRecord]) -> float:
    """Over those that were due at once and needed one run: delays and retries say nothing about speed."""
    plain = [job for job in jobs if job.task in (tasks.welcome.name, tasks.resize.name) and job.finished_at]
    if not plain:
        return 0.0
    began = min(job.started_at or 0 for job in plain)
    ended = max(job.finished_at or 0 for job in plain)
    return len(plain) / max((ended - began) / SECOND, 0.001)


def _percentile(ordered: list[float], share: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))], 2) if ordered else 0.0
