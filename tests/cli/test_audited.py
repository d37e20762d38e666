"""Whatever an operator changes is in the audit, under the operator's name, from the command line and over HTTP."""

from __future__ import annotations

import inspect

import click
import pytest

import holdfast
from holdfast.cli.main import cli
from holdfast.web.api import GROUPS
from holdfast.web.pages import PAGES

from .kit import Run

UNAUDITED = {
    # They read, or run until they are stopped.
    "worker", "serve", "demo", "doctor", "stats", "top", "jobs explain", "jobs grants", "jobs list", "jobs show",
    "jobs tail", "jobs artifacts get", "jobs artifacts list", "flows graph", "flows list", "flows show", "queues list",
    "queues show", "limits list", "breakers list", "budgets list", "budgets show", "budgets spent",
    "quotas list", "quotas show",
    "workers check", "workers leases", "workers list", "errors list", "errors show", "cron list", "cron next",
    "cron show", "signals pending", "signals received", "outbox list", "events tail", "webhooks list", "webhooks log",
    "keys list",
    "tokens list", "spill list", "audit",
    # What they do is a record itself: a signal, stored jobs, the table of migrations.
    "signals send", "spill replay", "jobs enqueue", "db create", "db drop", "db migrate", "db reset", "db sql",
    "db status", "db verify",
}  # fmt: skip
USAGE = {"spend_budget", "admit_to_quota", "release_from_quota"}
"""They count what a program uses; the counts are the record."""


def test_every_command_that_changes_something_says_who_did_it() -> None:
    silent = {path for path, command in commands(cli) if not any(one.name == "actor" for one in command.params)}
    assert silent <= UNAUDITED


@pytest.mark.parametrize("scope", ["operate", "admin"])
def test_every_operation_of_an_operator_says_who_did_it(scope: str) -> None:
    acts = [op for group in (*GROUPS, *PAGES) for op in group.operations if op.method != "GET" and op.needs == scope]
    for op in acts:
        code = inspect.getsource(inspect.unwrap(op.handler))
        named = "actor" in code or any(f"{helper}(call" in code for helper in ("_act", "_moved", "_switch", "_run"))
        assert named or op.name in USAGE, f"{op.method} {op.path} does not hand on who did it"


def test_emptying_a_bucket_by_hand_is_on_record(app: holdfast.App, run: Run) -> None:
    app.limits.set_rate("smtp", capacity=5, per_second=1)
    assert run("limits", "drain", "smtp", "--actor", "ada", "--reason", "refused").exit_code == 0
    app.limits.drain("smtp")
    assert [(one.actor, one.reason) for one in app.audit.list(action="rate.drain")] == [("app", ""), ("ada", "refused")]


def test_a_test_message_is_on_record(app: holdfast.App, run: Run) -> None:
    endpoint = app.webhooks.add("https://hooks.example.com/x")
    assert run("webhooks", "test", endpoint.id, "--actor", "ada").exit_code == 0
    (record,) = app.audit.list(action="webhook.test")
    assert (record.actor, record.target) == ("ada", endpoint.id)


def commands(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        return [(" ".join(path), command)]
    context = click.Context(command)
    below = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
    return [found for name, one in below if one is not None for found in commands(one, (*path, name))]
