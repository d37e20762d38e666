"""`holdfast cron`: see schedules and act on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import click
import msgspec

from ..app import App
from ..client.schedules import StoredSchedules
from ..errors import HoldfastError, InvalidInput, UnknownTask
from ..model.schedules import MISSED, OVERLAP, Schedule, Tick
from ..rules.cron import check_zone
from .command import (
    CONFLICT,
    EXIT_CODES,
    OK,
    Command,
    Duration,
    actor_option,
    as_data,
    describe,
    echo,
    exit_code,
    for_people,
    json_option,
    reason_option,
    target_options,
    tenant_option,
    view_option,
)
from .locate import find_app
from .output import instant, plain, print_facts, print_json, print_table

F = TypeVar("F", bound=Callable[..., Any])

_INSTANT: Final = "a time such as 2024-05-01T03:00 (in the schedule's zone) or 2024-05-01T03:00Z"


@click.group(epilog=EXIT_CODES)
def cron() -> None:
    """List, run, pause and edit schedules. Commands that take a NAME accept several."""


@cron.command("list", cls=Command)
@view_option
@json_option
@target_options
def list_(tenant: str | None, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """List the schedules by tenant and name, with their next run."""
    found = _schedules(app_name, store, tenant).list()
    if as_json:
        print_json({"schedules": [plain(schedule) for schedule in found]})
    else:
        print_schedules(found)


@cron.command(cls=Command)
@click.argument("name")
@tenant_option
@json_option
@target_options
def show(name: str, tenant: str | None, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """Show a schedule, with its latest jobs."""
    schedules = _schedules(app_name, store, tenant)
    schedule, ticks = schedules.get(name), schedules.ticks(name, 10)
    if as_json:
        print_json(plain(schedule) | {"ticks": [plain(tick) for tick in ticks]})
    else:
        print_schedule(schedule, ticks)


@cron.command("next", cls=Command)
@click.argument("name", metavar="NAME|EXPRESSION")
@click.option("--zone", metavar="ZONE", help="For an expression. [default: UTC]")
@click.option("--count", type=click.IntRange(1, 1000), default=5, metavar="N", help="[default: 5]")
@tenant_option
@json_option
@target_options
def next_(
    *,
    name: str,
    app_name: str | None,
    store: str | None,
    tenant: str | None,
    zone: str | None,
    count: int,
    as_json: bool,
    debug: bool,
) -> None:
    """Show the next runs of a schedule, or of an expression such as '0 3 * * MON'."""
    if " " in name or name.startswith("@"):
        found = App(":memory:").schedules.preview(name, zone=zone or "UTC", after=datetime.now(UTC), count=count)
    else:
        found = _schedules(app_name, store, tenant).next_runs(name, count)
    if as_json:
        print_json({"next": [at.astimezone(UTC).isoformat().replace("+00:00", "Z") for at in found]})
        return
    rows = [(at.isoformat(sep=" "), at.astimezone(UTC).isoformat(sep=" ").replace("+00:00", "Z")) for at in found]
    print_table(("local time", "UTC"), rows, empty="not active: no runs scheduled")


@cron.command(cls=Command)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@tenant_option
@actor_option
@reason_option
@json_option
@target_options
def run(
    names: Sequence[str],
    tenant: str | None,
    app_name: str | None,
    store: str | None,
    as_json: bool,
    debug: bool,
    **by: str,
) -> None:
    """Enqueue a job now, under the overlap policy (code 4 if it skips)."""

    def one(schedules: StoredSchedules, name: str) -> tuple[str, str, int]:
        ran = schedules.run_now(name, **by)
        if ran.job_id is None:
            return "skipped", f"was not run: job {ran.blocker} has not finished", CONFLICT
        return ran.job_id, f"enqueued job {ran.job_id}", OK

    _act(_schedules(app_name, store, tenant), names, one, as_json=as_json)


@cron.command(cls=Command)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@tenant_option
@actor_option
@reason_option
@json_option
@target_options
def pause(
    names: Sequence[str],
    tenant: str | None,
    app_name: str | None,
    store: str | None,
    as_json: bool,
    debug: bool,
    **by: str,
) -> None:
    """Pause schedules. Their jobs are not affected; a redeploy does not resume them."""

    def one(schedules: StoredSchedules, name: str) -> tuple[str, str, int]:
        return str(schedules.pause(name, **by).state), "is paused", OK

    _act(_schedules(app_name, store, tenant), names, one, as_json=as_json)


@cron.command(cls=Command)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@tenant_option
@actor_option
@reason_option
@json_option
@target_options
def resume(
    names: Sequence[str],
    tenant: str | None,
    app_name: str | None,
    store: str | None,
    as_json: bool,
    debug: bool,
    **by: str,
) -> None:
    """Resume schedules from the next scheduled time. Missed runs are not made up; see backfill."""

    def one(schedules: StoredSchedules, name: str) -> tuple[str, str, int]:
        resumed = schedules.resume(name, **by)
        return str(resumed.state), f"next runs at {instant(resumed.next_tick, exact=False)}", OK

    _act(_schedules(app_name, store, tenant), names, one, as_json=as_json)


def _timing_options(command: F) -> F:
    """Adds the timing options of `create` and `edit`."""
    for option in (
        click.option("--cooldown", type=Duration(), metavar="DURATION"),
        click.option("--jitter", type=Duration(), metavar="DURATION"),
        click.option("--overlap", type=click.Choice(OVERLAP)),
        click.option("--max-missed", type=int, metavar="N"),
        click.option("--missed", type=click.Choice(MISSED)),
        click.option("--priority", type=int, metavar="N"),
        click.option("--queue", metavar="NAME"),
        click.option("--args", "arguments", metavar="JSON", help="Arguments as a JSON object by name."),
        click.option("--zone", metavar="ZONE", help="For example Europe/Paris."),
        click.option(
            "--every", type=Duration(), metavar="DURATION", help="Interval instead of an expression: 90, 15m."
        ),
        click.option("--cron", metavar="EXPRESSION", help="For example '0 3 * * MON-FRI'."),
    ):
        command = option(command)
    return command


@cron.command(cls=Command)
@click.argument("name")
@click.option("--task", required=True, metavar="TASK", help="The task to run.")
@_timing_options
@tenant_option
@actor_option
@reason_option
@json_option
@target_options
def create(
    *,
    name: str,
    tenant: str | None,
    task: str,
    app_name: str | None,
    store: str | None,
    as_json: bool,
    debug: bool,
    arguments: str | None,
    queue: str | None,
    priority: int | None,
    **given: Any,
) -> None:
    """Create a schedule not declared in code. With --store alone the task and its arguments are not validated."""
    app = find_app(app_name, store)
    if task not in app.tasks and app.tasks:
        raise UnknownTask(f"this app has no task {task!r}; its tasks: {', '.join(sorted(app.tasks))}")
    chosen = (app.tasks.get(task) or app.declare(task)).options(queue=queue, priority=priority)
    wanted = {key: value for key, value in given.items() if value is not None}
    created = _of(app, tenant).create(name, chosen, kwargs=_object(arguments), **wanted)
    if as_json:
        print_json(plain(created))
    else:
        print_schedule(created, [])


@cron.command(cls=Command)
@click.argument("name")
@_timing_options
@tenant_option
@actor_option
@reason_option
@json_option
@target_options
def edit(
    name: str,
    tenant: str | None,
    app_name: str | None,
    store: str | None,
    as_json: bool,
    debug: bool,
    arguments: str | None,
    **given: Any,
) -> None:
    """Change a schedule. A redeploy does not overwrite the changes."""
    edited = _schedules(app_name, store, tenant).edit(name, arguments=_object(arguments), **given)
    if as_json:
        print_json(plain(edited))
    else:
        print_schedule(edited, [])


@cron.command(cls=Command)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@tenant_option
@actor_option
@reason_option
@json_option
@target_options
def delete(
    names: Sequence[str],
    tenant: str | None,
    app_name: str | None,
    store: str | None,
    as_json: bool,
    debug: bool,
    **by: str,
) -> None:
    """Delete schedules; their jobs are kept. One declared in code is recreated: pause it instead."""

    def one(schedules: StoredSchedules, name: str) -> tuple[str, str, int]:
        schedule = schedules.get(name)
        schedules.delete(name, **by)
        back = "; it is declared in code, so the next worker start recreates it" if schedule.origin == "code" else ""
        return "deleted", f"is deleted{back}", OK

    _act(_schedules(app_name, store, tenant), names, one, as_json=as_json)


@cron.command(cls=Command)
@click.argument("name")
@click.option("--from", "start", required=True, metavar="INSTANT", help="Start of the range, inclusive.")
@click.option("--to", "end", required=True, metavar="INSTANT", help="End of the range, exclusive.")
@click.option("--dry-run", is_flag=True, help="Preview only; enqueue nothing.")
@tenant_option
@actor_option
@reason_option
@json_option
@target_options
def backfill(
    *,
    name: str,
    tenant: str | None,
    app_name: str | None,
    store: str | None,
    start: str,
    end: str,
    as_json: bool,
    debug: bool,
    **given: Any,
) -> None:
    """Enqueue the missing jobs of past runs, at most 1,000 at a time, ignoring the overlap policy."""
    schedules = _schedules(app_name, store, tenant)
    schedule = schedules.get(name)
    done = schedules.backfill(name, _instant(start, schedule), _instant(end, schedule), **given)
    if as_json:
        print_json(plain(done))
        return
    for tick in done.made:
        echo(tick.astimezone(check_zone(schedule.zone)).isoformat(sep=" "))
    would = "would enqueue" if given["dry_run"] else "enqueued"
    echo(f"{would} {len(done.made):,} jobs; {len(done.existing):,} already exist")


def _object(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as wrong:
        raise InvalidInput(f"--args is not valid JSON: {wrong}") from None
    if not isinstance(value, dict):
        raise InvalidInput("--args must be a JSON object: the task's arguments by name")
    return value


def _instant(text: str, schedule: Schedule) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"{text!r} is not {_INSTANT}") from None
    return found if found.tzinfo else found.replace(tzinfo=check_zone(schedule.zone))


def _schedules(app_name: str | None, store: str | None, tenant: str | None) -> StoredSchedules:
    return _of(find_app(app_name, store), tenant)


def _of(app: App, tenant: str | None) -> StoredSchedules:
    return app.schedules.of(tenant) if tenant else app.schedules


def _act(
    schedules: StoredSchedules,
    names: Sequence[str],
    one: Callable[[StoredSchedules, str], tuple[str, str, int]],
    *,
    as_json: bool,
) -> None:
    """Process each in its own transaction; the exit code is that of the first failure."""
    results: list[dict[str, Any]] = []
    code = OK
    for name in names:
        try:
            word, phrase, worth = one(schedules, name)
        except HoldfastError as error:
            worth = exit_code(error)
            results.append({"name": name, "error": as_data(error)})
            if not as_json:
                echo(f"error: {describe(error)}", err=True)
        else:
            results.append({"name": name, "outcome": word})
            if not as_json:
                echo(f"{name} {phrase}")
        code = code or worth
    if as_json:
        print_json({"results": results})
    raise SystemExit(code)


def print_schedules(found: Sequence[Schedule]) -> None:
    rows = [
        (
            s.name,
            s.tenant,
            str(s.state),
            _when(s),
            s.task,
            s.queue,
            instant(s.next_tick, exact=False),
            s.fired,
            s.skipped,
        )
        for s in found
    ]
    columns = ("name", "tenant", "state", "when", "task", "queue", "next", "fired#", "skipped#")
    print_table(columns, rows, empty="no schedules")


def print_schedule(schedule: Schedule, ticks: Sequence[Tick]) -> None:
    s = schedule
    print_facts(
        [
            ("name", s.name),
            ("tenant", s.tenant),
            ("state", str(s.state)),
            ("when", _when(s)),
            ("task", s.task),
            ("arguments", msgspec.json.encode(s.arguments).decode()),
            ("queue", s.queue),
            ("webhook", s.options.get("webhook")),
            ("missed", f"all, up to {s.max_missed:,}" if s.missed == "all" else s.missed),
            ("overlap", s.overlap),
            ("jitter", for_people(s.jitter) if s.jitter else None),
            ("cooldown", for_people(s.cooldown) if s.every else None),
            ("next", _on_both_clocks(s)),
            ("processed through", instant(s.last_tick, exact=False)),
            ("runs, skipped", f"{s.fired:,}, {s.skipped:,}"),
            ("created by", f"{s.origin}, edited: {', '.join(s.edited)}" if s.edited else s.origin),
            ("last job", s.last_job),
            ("error", s.last_error),
        ]
    )
    if ticks:
        print_table(("tick", "job"), [(instant(one.tick, exact=False), one.job_id) for one in ticks], empty="")


def _when(schedule: Schedule) -> str:
    if schedule.every is not None:
        return f"every {for_people(schedule.every)}"
    return f"{schedule.cron} {schedule.zone}"


def _on_both_clocks(schedule: Schedule) -> str | None:
    if schedule.next_tick is None:
        return None
    try:
        local = schedule.next_tick.astimezone(check_zone(schedule.zone)).isoformat(sep=" ", timespec="seconds")
    except InvalidInput:
        local = f"no zone {schedule.zone}"
    return f"{instant(schedule.next_tick, exact=False)} ({local})"
