"""Actions on jobs selected by a filter, besides those given by id."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from ..app import App
from ..errors import HoldfastError, NotFound
from ..model.actions import Action, ActionResult, BulkReport
from ..shapes.bulk import of_report
from .command import CONFLICT, NOT_FOUND, OK, Command, as_data, describe, exit_code, json_option, target_options
from .locate import find_app
from .operator import Duration, actor_option, reason_option
from .output import plain, print_json

F = TypeVar("F", bound=Callable[..., Any])

_CODES: Final = {
    ActionResult.MISSING: NOT_FOUND,
    ActionResult.NOT_ALLOWED: CONFLICT,
    ActionResult.NOT_REQUEUED: CONFLICT,
    ActionResult.FINISHED: CONFLICT,
}


_ALREADY: Final = {
    Action.HOLD: "was already held",
    Action.RELEASE: "is not held; nothing changed",
    Action.PRIORITY: "already has that priority",
}
_ALLOWED: Final = {
    Action.HOLD: "; only a ready job can be held. Cancel a running job, or revoke its lease",
    Action.RELEASE: "; only a held job can be released",
    Action.PRIORITY: "; only the priority of a job that has not started can be changed",
    Action.MOVE: "; only a job that has not started can be moved",
}
"""The states each action accepts, for its error messages."""


def bulk_options(command: F) -> F:
    """Adds IDS, `--filter`, `--older-than`, `--all` and `--dry-run`."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Preview only; change nothing."),
        click.option("--all", "everything", is_flag=True, help="Every job in the store."),
        click.option(
            "--older-than", type=Duration(), metavar="DURATION", help="Jobs finished longer ago than this, such as 30d."
        ),
        click.option(
            "--filter",
            "filters",
            metavar="FIELD=VALUE",
            multiple=True,
            help="Jobs that match, instead of IDs; repeatable.",
        ),
        click.argument("ids", metavar="[ID]...", nargs=-1),
    ):
        command = option(command)
    return command


def is_bulk(ids: Sequence[str], chosen: dict[str, Any]) -> bool:
    """Return True if jobs are selected by a filter; exactly one of the two ways must be used."""
    described = bool(chosen["filters"] or chosen["everything"] or chosen["older_than"] is not None)
    if described and ids:
        raise click.UsageError("give either IDs or filters, not both")
    if not described and not ids:
        raise click.UsageError("which jobs? Give IDs, --filter FIELD=VALUE, or --all for every job")
    return described or chosen["dry_run"]


def act(app: App, action: str, ids: Sequence[str], chosen: dict[str, Any], *, as_json: bool, **options: Any) -> None:
    """Act on the selected jobs, and print the outcome."""
    report = app.jobs.bulk(
        action,
        None if ids else _filter(chosen),
        ids=list(ids) or None,
        all=chosen["everything"],
        dry_run=chosen["dry_run"],
        **options,
    )
    if as_json:
        print_json(plain(of_report(report)))
    else:
        _tell(app, report)
    raise SystemExit(next((_CODES[fate] for fate in report.by_id.values() if fate in _CODES), OK))


def _filter(chosen: dict[str, Any]) -> dict[str, object]:
    wanted: dict[str, object] = {}
    for text in chosen["filters"]:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--filter {text}: write it as FIELD=VALUE, such as state=failed")
        if name in wanted:
            raise click.UsageError(f"--filter {name} is given twice")
        wanted[name] = value
    if chosen["older_than"] is not None:
        wanted["older_than"] = chosen["older_than"]
    return wanted


def _tell(app: App, report: BulkReport) -> None:
    for job_id, fate in report.by_id.items():
        if fate is ActionResult.MISSING:
            click.echo(f"error: {NotFound('job', job_id)}", err=True)
        elif fate is ActionResult.NOT_ALLOWED:
            click.echo(f"error: job {job_id} is {_standing(app, job_id)}{_ALLOWED.get(report.action, '')}", err=True)
        else:
            click.echo(
                f"{job_id} {_ALREADY.get(report.action, 'already') if fate is ActionResult.ALREADY else _phrase(fate)}"
            )
    if not report.by_id:
        parts = [f"{n:,} {_phrase(fate)}" for fate, n in report.fates.items()]
        click.echo(f"{report.chosen:,} jobs selected" + (f": {', '.join(parts)}" if parts else ""))
    if report.dry_run:
        click.echo("dry run; nothing was changed")


def _standing(app: App, job_id: str) -> str:
    job = app.jobs.get(job_id, whole=False)
    return f"{job.state} ({job.reason})" if job.reason else str(job.state)


def _phrase(fate: ActionResult) -> str:
    return {ActionResult.NOT_REQUEUED: "not retried: a newer job has the same dedupe key"}.get(
        fate, str(fate).replace("_", " ")
    )


def _command(name: str, text: str, *extra: Callable[[Any], Any]) -> click.Command:
    """Return a command that acts on one or many jobs."""

    def run(
        ids: Sequence[str], app_name: str | None, store: str | None, as_json: bool, debug: bool, **given: Any
    ) -> None:
        chosen = {key: given.pop(key) for key in ("filters", "everything", "older_than", "dry_run")}
        is_bulk(ids, chosen)
        act(find_app(app_name, store), name, ids, chosen, as_json=as_json, **given)

    decorated: Any = run
    for option in (*extra, target_options, json_option, reason_option, actor_option, bulk_options):
        decorated = option(decorated)
    return click.command(name, cls=Command, help=text)(decorated)


hold: Final = _command("hold", "Keep ready jobs from starting until they are released.")
release: Final = _command("release", "Release held jobs.")
priority: Final = _command(
    "priority",
    "Change the priority of jobs that have not started; higher runs first.",
    click.option("--to", "priority", type=int, required=True, metavar="N"),
)
move: Final = _command(
    "move",
    "Move jobs that have not started to another queue.",
    click.option("--to", "to_queue", required=True, metavar="QUEUE"),
)


Answer = tuple[str, str, int]
"""A stable word for programs, a phrase for people, and the exit code."""


def act_on_each(app: App, ids: Sequence[str], one: Callable[[App, str], Answer], *, as_json: bool) -> None:
    """Process each in its own transaction; the exit code is that of the first failure."""
    results: list[dict[str, Any]] = []
    code = OK
    for job_id in ids:
        try:
            word, phrase, worth = one(app, job_id)
        except HoldfastError as error:
            worth = exit_code(error)
            results.append(failed(job_id, error, as_json=as_json))
        else:
            results.append({"id": job_id, "outcome": word})
            if not as_json:
                click.echo(f"{job_id} {phrase}")
        code = code or worth
    if as_json:
        print_json({"results": results})
    raise SystemExit(code)


def failed(job_id: str, error: HoldfastError, *, as_json: bool) -> dict[str, Any]:
    """Print the error of one job."""
    if not as_json:
        click.echo(f"error: {describe(error)}", err=True)
    return {"id": job_id, "error": as_data(error)}
