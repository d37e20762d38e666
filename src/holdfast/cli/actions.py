"""Operator actions on jobs by id or by filter: a command each, made from its description."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import click

from ..app import App
from ..errors import HoldfastError
from ..model.actions import ActionResult, BulkReport
from ..rules.actions import ACTIONS, JobAction, Kind, Meaning, Parameter
from .command import (
    CONFLICT,
    FAILED,
    NOT_FOUND,
    OK,
    Command,
    Duration,
    actor_option,
    as_data,
    describe,
    echo,
    exit_code,
    json_option,
    reason_option,
    target_options,
)
from .locate import find_app
from .output import plain, print_json

_CODES: Final[dict[Meaning, int]] = {"done": OK, "later": FAILED, "refused": CONFLICT}
_TYPES: Final[dict[Kind, Any]] = {
    "priority": int, "queue": str, "name": str, "number": int, "duration": Duration(),
    "delay": Duration(), "instant": str,
}  # fmt: skip
_CHOICE: Final = ("filters", "everything", "older_than", "dry_run")

Answer = tuple[str, str, int]
"""A stable word for programs, a phrase for people, and the exit code."""


def _command(record: JobAction) -> click.Command:
    """Return the command of an action, on one or many jobs."""

    def run(
        ids: Sequence[str],
        app_name: str | None,
        store: str | None,
        actor: str,
        reason: str,
        as_json: bool,
        debug: bool,
        **given: Any,
    ) -> None:
        chosen = {name: given.pop(name) for name in _CHOICE}
        by_filter = _is_bulk(ids, chosen)
        app, who = find_app(app_name, store), {"actor": actor, "reason": reason}
        if by_filter:
            _check_filterable(record, given, ids)
            _act_on_many(app, record, ids, chosen, as_json=as_json, **who, **given)

        def one(app: App, job_id: str) -> Answer:
            result = app.jobs.act(record.verb, job_id, **who, **given)
            outcome = record.outcome(result)
            return result, outcome.text, _CODES[outcome.meaning]

        act_on_each(app, ids, one, as_json=as_json)

    decorated: Any = run
    options = [_option(one) for one in record.parameters]
    said = _kept_reason(record.reason) if record.reason else reason_option
    for option in (target_options, json_option, said, actor_option, *reversed(options), _choice_options):
        decorated = option(decorated)
    return click.command(record.slug, cls=Command, help=record.about)(decorated)


def _option(one: Parameter) -> Callable[[Any], Any]:
    spelled = one.option or f"--{one.name}"
    if one.kind == "flag":
        return click.option(spelled, one.name, is_flag=True, help=one.about)
    metavar = one.metavar or one.kind.upper()
    about = one.about if one.default is None else f"{one.about} [default: {one.default:g} s]"
    return click.option(spelled, one.name, type=_TYPES[one.kind], metavar=metavar, required=one.required, help=about)


def _kept_reason(default: str) -> Callable[[Any], Any]:
    return click.option(
        "--reason", default=default, metavar="TEXT", help=f"Reason; kept on the job. [default: {default}]"
    )


def _choice_options(command: Any) -> Any:
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


COMMANDS: Final = [_command(record) for record in ACTIONS.values()]


def _is_bulk(ids: Sequence[str], chosen: dict[str, Any]) -> bool:
    """Return True if jobs are selected by a filter; exactly one of the two ways must be used."""
    described = bool(chosen["filters"] or chosen["everything"] or chosen["older_than"] is not None)
    if described and ids:
        raise click.UsageError("give either IDs or filters, not both")
    if not described and not ids:
        raise click.UsageError("which jobs? Give IDs, --filter FIELD=VALUE, or --all for every job")
    return described or chosen["dry_run"]


def _check_filterable(record: JobAction, given: dict[str, Any], ids: Sequence[str]) -> None:
    named = [f"--{one.name}" for one in record.parameters if one.by_id]
    if not ids and any(one.by_id and given[one.name] is not None for one in record.parameters):
        raise click.UsageError(f"{' and '.join(named)} need job IDs")


def _act_on_many(
    app: App, record: JobAction, ids: Sequence[str], chosen: dict[str, Any], *, as_json: bool, **given: Any
) -> NoReturn:
    """Act on the selected jobs, and print the outcome."""
    report = app.jobs.bulk(
        record.verb,
        None if ids else _filter(chosen),
        ids=list(ids) or None,
        all=chosen["everything"],
        dry_run=chosen["dry_run"],
        **given,
    )
    if as_json:
        print_json(plain(report))
    else:
        _tell(record, report)
    codes = (_code(record, one.outcome) for one in report.results)
    raise SystemExit(next((code for code in codes if code), OK))


def _code(record: JobAction, result: ActionResult) -> int:
    return NOT_FOUND if result is ActionResult.MISSING else _CODES[record.outcome(result).meaning]


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


def _tell(record: JobAction, report: BulkReport) -> None:
    for one in report.results:
        echo(f"{one.id} {record.outcome(one.outcome).text}")
    if not report.results:
        parts = [f"{n:,} {record.outcome(result).of(n)}" for result, n in report.counts.items()]
        echo(
            f"{report.chosen:,} {'job' if report.chosen == 1 else 'jobs'} selected"
            + (f": {', '.join(parts)}" if parts else "")
        )
    if report.dry_run:
        echo("dry run; nothing was changed")


def act_on_each(app: App, ids: Sequence[str], one: Callable[[App, str], Answer], *, as_json: bool) -> NoReturn:
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
                echo(f"{job_id} {phrase}")
        code = code or worth
    if as_json:
        print_json({"results": results})
    raise SystemExit(code)


def failed(job_id: str, error: HoldfastError, *, as_json: bool) -> dict[str, Any]:
    """Print the error of one job."""
    if not as_json:
        echo(f"error: {describe(error)}", err=True)
    return {"id": job_id, "error": as_data(error)}
