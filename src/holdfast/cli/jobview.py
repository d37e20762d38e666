"""Jobs on the screen."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

import click
from rich.text import Text

from ..clock import SECOND
from ..model.job import Attempt, JobRecord
from ..model.stream import Progress
from ..rules.explain import Explanation, Reason
from ..rules.webhooks import own_tags
from .output import STATE_STYLES, console_for, instant, print_facts, print_table
from .shapes import decoded, error_line, last_error
from .streams import progress_line


def print_jobs(jobs: Sequence[JobRecord], more: str | None, unrunnable: Mapping[str, Reason]) -> None:
    rows = [
        (
            job.id,
            job.task,
            job.queue,
            str(job.state),
            job.priority,
            f"{job.attempts}/{job.max_attempts or '∞'}",
            instant(job.created_at, exact=False),
            _lack(unrunnable.get(job.id)) or error_line(last_error(job)) or job.reason,
        )
        for job in jobs
    ]
    columns = ("id", "task", "queue", "state", "prio#", "tries#", "created", "why…")
    print_table(columns, rows, empty="no jobs")
    if unrunnable:
        for text, n in Counter(reason.text for reason in unrunnable.values()).items():
            click.echo(f"warning: {n} of these can run nowhere: {text}", err=True)
    if more:
        click.echo(f"there may be more: --before {more}", err=True)


def _lack(reason: Reason | None) -> str | None:
    """What is missing to run a job; that there is no worker at all is said once, below the list."""
    return None if reason is None or reason.code == "no_worker" else reason.text


def print_job(job: JobRecord, attempts: Sequence[Attempt], progress: Progress) -> None:
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
            ("attempts", f"{job.attempts} of {job.max_attempts or 'any number'}"),
            ("created", instant(job.created_at)),
            ("not before", instant(job.not_before)),
            ("started", instant(job.started_at)),
            ("finished", instant(job.finished_at)),
            ("deadline", instant(job.deadline)),
            ("timeout", None if job.timeout is None else f"{job.timeout / SECOND:g} s"),
            ("worker", job.owner and f"{job.owner}, under epoch {job.epoch}"),
            ("cancel", job.cancel_at and f"requested {instant(job.cancel_at)}: {job.cancel_reason}"),
            ("dedupe", job.dedupe_key and f"{job.dedupe_key!r} in {job.dedupe_scope!r} until {job.dedupe_until}"),
            ("crashes", job.crashes or None),
            ("suspect", "yes: its worker was lost, so it runs apart" if job.suspect else None),
            ("generation", job.generation or None),
            ("tags", ", ".join(own_tags(decoded(job.tags) or []))),
            ("arguments", _json(job.payload)),
            ("result", _json(job.result)),
            ("error", error_line(last_error(job))),
        ]
    )
    if attempts:
        _print_attempts(attempts)
    click.echo()


def print_explanation(found: Explanation) -> None:
    console = console_for()
    state = str(found.job.state)
    console.print(Text.assemble(f"{found.job.id}  {found.job.task}  ", (state, STATE_STYLES.get(state, ""))))
    for reason in found.reasons:
        console.print(Text.assemble("  - ", (reason.code, "bold"), f": {reason.text}"))


def _print_attempts(attempts: Sequence[Attempt]) -> None:
    click.echo("\nruns that did not succeed")
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
        click.echo("\nthe last error's traceback")
        click.echo(str(last["traceback"]).rstrip())


def _json(text: str | None) -> str | None:
    value = decoded(text)
    return None if text is None else json.dumps(value, ensure_ascii=False)
