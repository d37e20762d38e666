"""`holdfast jobs fork`, and the steps of a job on the screen."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from ..model.steps import StepInfo
from ..shapes.jobs import line_of
from .command import Command, actor_option, echo, json_option, reason_option, target_options
from .locate import find_app
from .output import instant, print_json, print_table


@click.command(cls=Command)
@click.argument("job_id", metavar="ID")
@click.option(
    "--from", "from_step", required=True, metavar="STEP", help="Name of the step, NAME#2, or a key from `jobs show`."
)
@actor_option
@reason_option
@json_option
@target_options
def fork(
    *,
    job_id: str,
    from_step: str,
    app_name: str | None,
    store: str | None,
    actor: str,
    reason: str,
    as_json: bool,
    debug: bool,
) -> None:
    """Fork a durable job from a step: a new job that keeps the results recorded before it."""
    made = find_app(app_name, store).jobs.fork(job_id, from_step=from_step, actor=actor, reason=reason)
    if as_json:
        print_json({"id": made.id, "forked_from": job_id, "from_step": from_step})
    else:
        echo(f"{made.id} continues from {from_step}")


def print_steps(steps: Sequence[StepInfo]) -> None:
    if not steps:
        return
    echo("\nsteps")
    rows = [
        (
            step.key,
            step.called,
            step.attempts,
            instant(step.ended_at),
            f"{(step.ended_at - step.started_at).total_seconds():.3g} s",
            step.attributes.summary if step.attributes else "",
            line_of(step.error) or json.dumps(step.value, ensure_ascii=False),
        )
        for step in steps
    ]
    print_table(("step", "function", "tries#", "ended", "took#", "attributes", "value…"), rows, empty="")
