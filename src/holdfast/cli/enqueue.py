"""`holdfast jobs enqueue`: enqueue a job from a shell."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from ..app import App
from ..errors import InvalidInput, UnknownTask
from ..shapes.jobs import Outcome, of_outcome
from ..tasks.options import CallOptions
from ..tasks.task import Task
from .command import FAILED, OK, Command, Duration, actor_option, json_option, target_options, tenant_option
from .locate import find_app, is_named
from .output import plain, say


@click.command(cls=Command)
@click.argument("task")
@click.option(
    "--args", "text", default="{}", metavar="JSON", help="An object by name, or a list; - reads it from stdin."
)
@click.option("--queue", metavar="NAME", help="[default: the task's]")
@click.option("--priority", type=int, metavar="N", help="Higher starts earlier. [default: the task's]")
@click.option("--delay", type=Duration(), help="Delay the start, for example by 30s or 2h.")
@click.option("--key", "dedupe_key", metavar="KEY", help="Dedupe key: at most one unfinished job of the task has it.")
@click.option("--id", "own_id", metavar="ID", help="Your own job id: repeating the command enqueues one job.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag of the job; repeatable.")
@click.option("--wait", type=Duration(), help="Wait this long for the job; code 1 if it has not succeeded by then.")
@tenant_option
@actor_option
@json_option
@target_options
def enqueue(
    *,
    task: str,
    text: str,
    own_id: str | None,
    tags: Sequence[str],
    wait: float | None,
    actor: str,
    app_name: str | None,
    store: str | None,
    as_json: bool,
    debug: bool,
    **given: Any,
) -> None:
    """Enqueue a job of TASK.

    With an app the arguments are validated against the task. With --store alone every name is accepted: a worker must
    know it.
    """
    app = find_app(app_name, store, adds=True)
    options = CallOptions(id=own_id, tags=tuple(tags), created_by=actor, **given)
    job = app.enqueue(_task(app, task, named=is_named(app_name, store)).read(_arguments(text), options))
    if wait is None:
        words = "is enqueued" if job.created else "already exists; nothing was enqueued"
        say({"id": job.id, "created": job.created}, f"{job.id} {words}", as_json)
        return
    job.wait(wait)
    end = of_outcome(app.jobs.get(job.id))
    say(plain(end) | {"created": job.created}, f"{job.id} {end.state}{_end(end)}", as_json)
    raise SystemExit(OK if end.state == "succeeded" else FAILED)


def _task(app: App, name: str, *, named: bool) -> Task[..., Any]:
    if not named:
        return app.external_task(name)
    if (task := app.tasks.get(name)) is None:
        raise UnknownTask(f"the app has no task {name!r}; it has {', '.join(sorted(app.tasks)) or 'none'}")
    return task


def _arguments(text: str) -> Any:
    try:
        value = json.loads(sys.stdin.read() if text == "-" else text)
    except ValueError as wrong:
        raise InvalidInput(f'--args is not valid JSON: {wrong}; write for example \'{{"user": "Ada"}}\'') from None
    if not isinstance(value, dict | list):
        raise InvalidInput('--args must be an object by name, such as \'{"user": "Ada"}\', or a list in order')
    return value


def _end(end: Outcome) -> str:
    shown = end.result if end.state == "succeeded" else end.error
    return "" if shown is None else f": {json.dumps(shown, ensure_ascii=False, default=str)}"
