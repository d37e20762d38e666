"""`holdfast jobs`: list jobs and act on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from ..app import App
from ..clock import SECOND, SYSTEM_CLOCK
from ..errors import HoldfastError
from ..model.answers import LATER, CancelResult, DeleteResult, JobFilter
from ..model.jobs import JobState
from ..shapes.jobs import of_explanation
from .acting import Answer, act_on_each, failed
from .artifacts import artifacts
from .bulk import act, bulk_options, hold, is_bulk, move, priority, release
from .command import (
    CONFLICT,
    EXIT_CODES,
    FAILED,
    OK,
    Command,
    exit_code,
    json_option,
    target_options,
)
from .control import replay, revoke
from .enqueue import enqueue
from .grants import grant, grants, reason_data, withdraw
from .jobview import print_explanation, print_job, print_jobs
from .locate import find_app
from .operator import Duration, actor_option, reason_option
from .output import plain, print_json
from .shapes import job_brief, job_whole
from .steps import fork, print_steps, step_data
from .streams import progress_data, tail


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
        found = {"steps": [step_data(step) for step in steps], "progress": progress_data(progress)}
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
        return plain(of_explanation(found))

    _look(ids, one, "jobs", as_json=as_json)


@jobs.command(cls=Command)
@bulk_options
@actor_option
@reason_option
@json_option
@target_options
def retry(
    ids: Sequence[str],
    app_name: str | None,
    store: str | None,
    actor: str,
    reason: str,
    as_json: bool,
    debug: bool,
    **chosen: Any,
) -> None:
    """Run finished jobs again: attempts are reset, their history is kept."""
    app = find_app(app_name, store)
    if is_bulk(ids, chosen):
        act(app, "retry", ids, chosen, as_json=as_json, actor=actor, reason=reason)

    def one(app: App, job_id: str) -> Answer:
        if app.jobs.retry(job_id, actor=actor, reason=reason):
            return "retried", "is ready again", OK
        return "key_taken", "was not retried: a newer job has the same dedupe key", CONFLICT

    act_on_each(app, ids, one, as_json=as_json)


@jobs.command(cls=Command)
@bulk_options
@click.option("--force", is_flag=True, help="End running jobs immediately, without waiting for their handlers.")
@click.option("--owner", metavar="WORKER", help="Only if this worker runs it.")
@click.option("--epoch", type=int, metavar="N", help="Only under this epoch.")
@click.option("--reason", default="cancelled", metavar="TEXT", help="Reason; kept on the job. [default: cancelled]")
@actor_option
@json_option
@target_options
def cancel(
    *,
    ids: Sequence[str],
    app_name: str | None,
    store: str | None,
    force: bool,
    owner: str | None,
    epoch: int | None,
    reason: str,
    actor: str,
    as_json: bool,
    debug: bool,
    **chosen: Any,
) -> None:
    """Cancel waiting jobs; ask running ones to stop. A job that succeeds first stays succeeded."""
    app = find_app(app_name, store)
    if is_bulk(ids, chosen):
        if owner is not None or epoch is not None:
            raise click.UsageError("--owner and --epoch need job IDs")
        act(app, "cancel", ids, chosen, as_json=as_json, actor=actor, reason=reason, force=force)
    phrases = {
        CancelResult.CANCELLED: ("is cancelled", OK),
        CancelResult.REQUESTED: ("is running and was asked to stop", OK),
        CancelResult.FINISHED: ("had already finished", CONFLICT),
        CancelResult.MOVED: ("is held by another run now; nothing changed", CONFLICT),
    }

    def one(app: App, job_id: str) -> Answer:
        result = app.jobs.cancel(job_id, reason=reason, force=force, owner=owner, epoch=epoch, actor=actor)
        return (str(result), *phrases[result])

    act_on_each(app, ids, one, as_json=as_json)


@jobs.command(cls=Command)
@bulk_options
@actor_option
@reason_option
@json_option
@target_options
def delete(
    ids: Sequence[str],
    app_name: str | None,
    store: str | None,
    actor: str,
    reason: str,
    as_json: bool,
    debug: bool,
    **chosen: Any,
) -> None:
    """Delete jobs and their history. A running one is asked to stop instead (code 1): delete it again later."""
    app = find_app(app_name, store)
    if is_bulk(ids, chosen):
        act(app, "delete", ids, chosen, as_json=as_json, actor=actor, reason=reason)
    phrases = {
        DeleteResult.DELETED: ("is deleted", OK),
        DeleteResult.NEEDED: ("is part of an unfinished flow, or other jobs depend on it: delete it later", FAILED),
        DeleteResult.REQUESTED: ("is running and was asked to stop: delete it again after it has finished", FAILED),
    }

    def one(app: App, job_id: str) -> Answer:
        result = app.jobs.delete(job_id, actor=actor, reason=reason)
        return (str(result), *phrases[result])

    act_on_each(app, ids, one, as_json=as_json)


@jobs.command("run-now", cls=Command)
@bulk_options
@actor_option
@reason_option
@json_option
@target_options
def run_now(
    ids: Sequence[str],
    app_name: str | None,
    store: str | None,
    actor: str,
    reason: str,
    as_json: bool,
    debug: bool,
    **chosen: Any,
) -> None:
    """Start jobs now that are delayed or wait for a retry."""
    app = find_app(app_name, store)
    if is_bulk(ids, chosen):
        act(app, "run_now", ids, chosen, as_json=as_json, actor=actor, reason=reason)

    def one(app: App, job_id: str) -> Answer:
        moved = app.jobs.run_now(job_id, actor=actor, reason=reason)
        return ("due", "is due now", OK) if moved else ("already_due", "was already due", OK)

    act_on_each(app, ids, one, as_json=as_json)


for _command in (
    enqueue,
    priority,
    move,
    hold,
    release,
    revoke,
    replay,
    fork,
    tail,
    artifacts,
    grant,
    withdraw,
    grants,
):
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
