"""Jobs as tables."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

import click
from rich.text import Text

from ..clock import SECOND
from ..model.jobs import Attempt, Demands, JobRecord
from ..model.streams import Progress
from ..rules.explain import Explanation, Reason
from ..rules.webhooks import own_tags
from .output import STATE_STYLES, console_for, instant, print_facts, print_table
from .shapes import decoded, error_line
from .streams import progress_line


def print_jobs(
    jobs: Sequence[JobRecord], more: str | None, unrunnable: Mapping[str, Reason], *, by_end: bool = False
) -> None:
    rows = [
        (
            job.id,
            job.task,
            job.queue,
            str(job.state),
            job.priority,
            f"{job.attempts}/{job.max_attempts or '∞'}",
            instant(job.finished_at if by_end else job.created_at, exact=False),
            _lack(unrunnable.get(job.id)) or error_line(job.error) or job.reason,
        )
        for job in jobs
    ]
    columns = ("id", "task", "queue", "state", "prio#", "tries#", "ended" if by_end else "created", "why…")
    print_table(columns, rows, empty="no jobs")
    if unrunnable:
        for text, n in Counter(reason.text for reason in unrunnable.values()).items():
            click.echo(f"warning: {n} of these cannot run: {text}", err=True)
    if more:
        click.echo(f"more: --before {more}", err=True)


def _lack(reason: Reason | None) -> str | None:
    """Return what is missing to run a job; a missing worker is reported once, below the list."""
    return None if reason is None or reason.code == "no_worker" else reason.text


def print_job(job: JobRecord, attempts: Sequence[Attempt], progress: Progress, demands: Demands) -> None:
    print_facts(
        [
            ("id", job.id),
            ("task", job.task),
            ("queue", job.queue),
            ("tenant", job.tenant),
            ("flow", job.flow and f"{job.flow}, as {job.member}"),
            ("state", str(job.state)),
            ("reason", job.reason),
            ("progress", progress_line(progress)),
            ("priority", job.priority),
            ("attempts", f"{job.attempts} of {job.max_attempts or 'unlimited'}"),
            ("total attempts", job.total_attempts if job.past_attempts else None),
            ("created", instant(job.created_at)),
            ("created by", job.created_by),
            ("not before", instant(job.not_before)),
            ("started", instant(job.started_at)),
            ("finished", instant(job.finished_at)),
            ("deadline", instant(job.deadline)),
            ("timeout", None if job.timeout is None else f"{job.timeout / SECOND:g} s"),
            ("worker", job.owner and f"{job.owner}, under epoch {job.epoch}"),
            ("cancel", job.cancel_at and f"requested {instant(job.cancel_at)}: {job.cancel_reason}"),
            ("dedupe", job.dedupe_key and f"{job.dedupe_key!r} in {job.dedupe_scope!r} until {job.dedupe_until}"),
            ("requires", ", ".join(demands.requires)),
            ("affinity", demands.affinity),
            ("version", demands.version),
            ("concurrency key", _key(demands)),
            ("rate", demands.rate),
            ("breaker", demands.breaker),
            ("quota", demands.quota),
            ("reserves", _reserved(demands)),
            ("webhook", demands.webhook),
            ("crashes", job.crashes or None),
            (
                "suspect",
                "yes: crashed its process or lost its worker twice; runs in isolation" if job.suspect else None,
            ),
            ("generation", job.generation or None),
            ("tags", ", ".join(own_tags(decoded(job.tags) or []))),
            ("arguments", _json(job.payload)),
            ("result", _json(job.result)),
            ("error", error_line(job.error)),
        ]
    )
    if attempts:
        _print_attempts(attempts)
    click.echo()


def _key(demands: Demands) -> str | None:
    if demands.concurrency_key is None or demands.concurrency is None:
        return demands.concurrency_key
    return f"{demands.concurrency_key}, {demands.concurrency} at a time"


def _reserved(demands: Demands) -> str:
    return "; ".join(
        f"{budget}: " + ", ".join(f"{amount} {name}" for name, amount in amounts.items())
        for budget, amounts in demands.reserve.items()
    )


def print_explanation(found: Explanation) -> None:
    console = console_for()
    state = str(found.job.state)
    console.print(Text.assemble(f"{found.job.id}  {found.job.task}  ", (state, STATE_STYLES.get(state, ""))))
    for reason in found.reasons:
        console.print(Text.assemble("  - ", (reason.code, "bold"), f": {reason.text}"))


def _print_attempts(attempts: Sequence[Attempt]) -> None:
    click.echo("\nunsuccessful attempts")
    rows = [
        (
            item.attempt,
            item.outcome,
            instant(item.started_at),
            instant(item.ended_at),
            item.worker,
            error_line(item.error),
        )
        for item in attempts
    ]
    print_table(("try#", "outcome", "started", "ended", "worker", "error…"), rows, empty="")
    last = decoded(attempts[-1].error)
    if isinstance(last, dict) and last.get("traceback"):
        click.echo("\nlast traceback")
        click.echo(str(last["traceback"]).rstrip())


def _json(text: str | None) -> str | None:
    value = decoded(text)
    return None if text is None else json.dumps(value, ensure_ascii=False)
