"""`holdfast jobs`: list jobs and act on them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
from rich.text import Text

from ..clock import SECOND, SYSTEM_CLOCK
from ..errors import HoldfastError
from ..model.answers import LATER, JobFilter
from ..model.jobs import Attempt, Demands, JobRecord, JobState
from ..model.streams import Progress
from ..rules.explain import Explanation, Reason
from ..rules.webhooks import own_tags
from .actions import COMMANDS, failed
from .artifacts import artifacts
from .command import EXIT_CODES, OK, Command, Duration, echo, exit_code, json_option, target_options
from .enqueue import enqueue
from .grants import grants, reason_data
from .locate import find_app
from .output import (
    STATE_STYLES,
    console_for,
    decoded,
    error_line,
    instant,
    job_brief,
    job_whole,
    plain,
    print_facts,
    print_json,
    print_table,
)
from .steps import fork, print_steps
from .streams import progress_data, progress_line, tail


@click.group(epilog=EXIT_CODES)
def jobs() -> None:
    """List jobs and act on them. Commands that take an ID accept several."""


@jobs.command("list", cls=Command)
@click.option("--state", type=click.Choice([str(state) for state in JobState]))
@click.option("--label", type=click.Choice(LATER), help="Ready jobs that are not due yet, by reason.")
@click.option("--queue", metavar="NAME")
@click.option("--task", metavar="NAME")
@click.option("--tenant", metavar="NAME")
@click.option("--affinity", metavar="NAME", help="Only jobs with this affinity, such as a model.")
@click.option("--tag", metavar="TAG", help="For example invoice, or order=4711.")
@click.option(
    "--created-by", metavar="NAME", help="The actor that enqueued it, such as token:shop or schedule:nightly."
)
@click.option(
    "--ended-since", type=Duration(), metavar="DURATION", help="Finished within this time, such as 1h; latest first."
)
@click.option(
    "--ended-before", type=Duration(), metavar="DURATION", help="Finished longer ago than this; latest first."
)
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, metavar="N", help="[default: 50]")
@click.option("--before", metavar="NEXT", help="Only jobs after this position: the `next` of the previous page.")
@json_option
@target_options
def list_(
    app_name: str | None,
    store: str | None,
    ended_since: float | None,
    ended_before: float | None,
    as_json: bool,
    debug: bool,
    **given: Any,
) -> None:
    """List jobs, newest first; with --ended-since or --ended-before finished jobs, latest first."""
    app = find_app(app_name, store)
    by_end = ended_since is not None or ended_before is not None
    wanted = JobFilter(
        order="ended" if by_end else "created",
        finished_after=_ago(ended_since),
        finished_before=_ago(ended_before),
        **given,
    )
    found = app.jobs.find(wanted)
    unrunnable = app.jobs.unrunnable(found)
    more = wanted.place(found[-1]) if len(found) == wanted.limit else None
    if as_json:
        shown = [job_brief(job) | {"unrunnable": reason_data(unrunnable, job.id)} for job in found]
        print_json({"jobs": shown, "next": more})
    else:
        print_jobs(found, more, unrunnable, by_end=by_end)


def _ago(seconds: float | None) -> int | None:
    return None if seconds is None else SYSTEM_CLOCK.now() - round(seconds * SECOND)


@jobs.command(cls=Command)
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@json_option
@target_options
def show(ids: Sequence[str], app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Show a job, with its progress, steps, and unsuccessful attempts."""
    app = find_app(app_name, store)

    def one(job_id: str) -> dict[str, Any]:
        # Large values are useful only to programs.
        job, steps = app.jobs.get(job_id, whole=as_json), app.jobs.steps(job_id, whole=as_json)
        attempts, progress, demands = (
            app.jobs.attempts(job_id),
            app.streams.progress(job_id),
            app.jobs.demands(job_id),
        )
        if not as_json:
            print_job(job, attempts, progress, demands)
            print_steps(steps)
        found = {"steps": [plain(step) for step in steps], "progress": progress_data(progress)}
        return job_whole(job, attempts, demands, app.artifacts.list(job_id)) | found

    _look(ids, one, "jobs", as_json=as_json)


@jobs.command(cls=Command)
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@json_option
@target_options
def explain(ids: Sequence[str], app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Explain why a job is in its state, and what would change that. The first reason is the decisive one."""
    app = find_app(app_name, store)

    def one(job_id: str) -> dict[str, Any]:
        found = app.jobs.explain(job_id)
        if not as_json:
            print_explanation(found)
        return plain(found)

    _look(ids, one, "jobs", as_json=as_json)


for _command in (enqueue, *COMMANDS, fork, tail, artifacts, grants):
    jobs.add_command(_command)


def _look(ids: Sequence[str], one: Callable[[str], dict[str, Any]], name: str, *, as_json: bool) -> None:
    """Process each in turn; a missing one affects the exit code, not the others."""
    found: list[dict[str, Any]] = []
    code = OK
    for job_id in ids:
        try:
            found.append(one(job_id))
        except HoldfastError as error:
            code = code or exit_code(error)
            found.append(failed(job_id, error, as_json=as_json))
    if as_json:
        print_json({name: found})
    raise SystemExit(code)


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
            echo(f"warning: {n} of these cannot run: {text}", err=True)
    if more:
        echo(f"more: --before {more}", err=True)


def _lack(reason: Reason | None) -> str | None:
    """Return what is missing to run a job; a missing worker is reported once, below the list."""
    return None if reason is None or reason.code == "no_worker" else reason.text


def print_job(job: JobRecord, attempts: Sequence[Attempt], progress: Progress, demands: Demands) -> None:
    print_facts(
        [
            ("id", job.id),
            ("title", job.title),
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
    echo()


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
    state = str(found.state)
    console.print(Text.assemble(f"{found.id}  {found.task}  ", (state, STATE_STYLES.get(state, ""))))
    for reason in found.reasons:
        console.print(Text.assemble("  - ", (reason.code, "bold"), f": {reason.text}"))


def _print_attempts(attempts: Sequence[Attempt]) -> None:
    echo("\nunsuccessful attempts")
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
        echo("\nlast traceback")
        echo(str(last["traceback"]).rstrip())


def _json(text: str | None) -> str | None:
    value = decoded(text)
    return None if text is None else json.dumps(value, ensure_ascii=False)
