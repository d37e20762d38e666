"""What the command line says to mistakes, on both stores."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from holdfast import App, SyncContext
from holdfast.cli.main import cli
from holdfast.cli.worker import worker
from tests.postgres_server import Databases, url_of

from .kit import Run, answer, fill

REMEDY = 'run "holdfast db migrate", or call app.migrate() at start-up'


def test_tags_by_key_are_shown_and_filtered_by(app: App, run: Run) -> None:
    [job] = fill(app, 1, tags={"order": "4711"})
    fill(app, 1, tags={"order": "4712"})
    assert "order=4711" in run("jobs", "show", job).output
    found = answer(run("jobs", "list", "--tag", "order=4711", "--json"))
    assert [one["id"] for one in found["jobs"]] == [job]
    assert "1 " in run("jobs", "cancel", "--filter", "tag=order=4711").output
    assert app.jobs.get(job).state == "cancelled"


def test_jobs_scheduled_for_later_are_listed_and_acted_on(app: App, run: Run) -> None:
    fill(app, 1)
    [later] = fill(app, 1, delay=3600)
    found = answer(run("jobs", "list", "--label", "delayed", "--json"))
    assert [one["id"] for one in found["jobs"]] == [later]
    assert "1 is due now" in run("jobs", "run-now", "--filter", "label=delayed").output
    assert answer(run("jobs", "list", "--label", "delayed", "--json"))["jobs"] == []
    assert "there is no label" in run("jobs", "cancel", "--filter", "label=parked").output


def test_workers_are_listed_with_the_jobs_that_they_run(app: App, run: Run) -> None:
    [job] = fill(app, 1)
    app.remote.claim(app.remote.register("rusty", ["mail"], ["mail"], concurrency=3).worker, 1)
    (worker,) = answer(run("workers", "list", "--json"))["workers"]
    assert (worker["running"], worker["oldest"]) == (1, [job])
    assert job in run("workers", "list").output


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("enqueue", "use “cli jobs enqueue”"),
        ("pause", "use “cli queues pause” or “cli cron pause”"),
        ("job", "use “cli jobs”"),
        ("frobnicate", "“cli --help” lists them"),
    ],
)
def test_an_unknown_command_says_which_one_was_meant(run: Run, written: str, meant: str) -> None:
    refused = run(written, "--app", "shop:app")
    assert refused.exit_code == 2 and meant in refused.output
    assert answer(run(written, "--json"), code=2)["error"]["code"] == "usage"


def test_a_signal_of_another_name_says_what_the_job_waits_for(app: App, run: Run) -> None:
    @app.task
    def waits(ctx: SyncContext) -> None:
        ctx.wait_for("approval")

    job = waits.enqueue()
    app.drain()
    assert "waits for approval; this signal is kept" in run("signals", "send", job.id, "--name", "aproval").output
    sent = answer(run("signals", "send", job.id, "--name", "aproval", "--json"))
    assert sent["waits_for"] == ["approval"]


def test_a_queue_that_nobody_knows_is_warned_of_on_standard_error(app: App) -> None:
    fill(app, 1)
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "queues", "pause", "mial"],
        env={**os.environ, "HOLDFAST_STORE": app.config.store}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "queue mial is paused\n"
    assert done.stderr == "queue 'mial' has no jobs, settings or workers so far; those that have are mail\n"


def test_a_postgres_database_that_is_missing_is_created_by_the_command_that_the_error_names(
    postgres_databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = postgres_databases.create()
    postgres_databases.drop(dsn)
    monkeypatch.setenv("HOLDFAST_STORE", url_of(dsn))
    lost = CliRunner().invoke(cli, ["jobs", "list"])
    assert lost.exit_code == 5
    assert 'does not exist; create it with "holdfast db create"' in lost.stderr
    assert CliRunner().invoke(cli, ["db", "create"]).exit_code == 0
    try:
        assert CliRunner().invoke(cli, ["jobs", "list"]).output == "no jobs\n"
    finally:
        postgres_databases.drop(dsn)


def test_a_database_without_the_schema_is_told_with_a_count_and_the_command(
    blank_postgres_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", url_of(blank_postgres_dsn))
    lost = CliRunner().invoke(cli, ["queues", "pause", "mail"])
    assert lost.stderr == f"error: the database lacks Holdfast's tables; {REMEDY}\n"
    CliRunner().invoke(cli, ["db", "migrate"])
    with psycopg.connect(blank_postgres_dsn, autocommit=True) as connection:
        connection.execute("delete from holdfast_migration where version > 18")
    lost = CliRunner().invoke(cli, ["queues", "pause", "mail"])
    assert re.fullmatch(rf"error: the database lacks \d+ of \d+ migrations; {re.escape(REMEDY)}\n", lost.stderr)


def test_a_limit_for_a_task_that_the_app_does_not_have_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "limited_shop.py").write_text("import holdfast\napp = holdfast.App('l.db')\napp.declare('add')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOLDFAST_STORE", raising=False)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    done = CliRunner().invoke(cli, ["limits", "set", "5", "--task", "ad", "--app", "limited_shop:app"])
    assert "warning: the app has no task 'ad'; it has add" in done.stderr


@pytest.mark.parametrize("words", [("--store", "x.db", "jobs", "list"), ("jobs", "--store", "x.db", "list")])
def test_an_option_in_front_of_its_command_is_sent_behind_it(words: tuple[str, ...]) -> None:
    misplaced = CliRunner().invoke(cli, words)
    assert misplaced.exit_code == 2
    assert "put --store after the command, for example: holdfast jobs list --store …" in misplaced.stderr


def test_a_queue_that_is_not_there_cannot_be_shown(app: App, run: Run) -> None:
    missing = run("queues", "show", "mial")
    assert (missing.exit_code, missing.stdout) == (3, "")
    assert missing.stderr.startswith("error: no queue 'mial'; ")
    fill(app, 1)
    assert run("queues", "show", "mail").exit_code == run("queues", "show", "default").exit_code == 0


def test_queues_with_a_space_between_them_are_told_to_have_a_comma(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text('import holdfast\napp = holdfast.App("jobs.db")\n')
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "worker", "shop:app", "--queues", "mail default"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--queues mail,default" in done.stderr


def test_a_list_option_that_is_repeated_adds_up() -> None:
    given = ["shop:app", "--queues", "mail,post", "--queues", "sms", "--weights", "a=1", "--weights", "b=2"]
    parsed = worker.make_context("worker", given).params
    assert (parsed["queues"], parsed["weights"], parsed["resident"]) == ("mail,post,sms", "a=1,b=2", None)


def test_a_word_that_a_policy_does_not_have_is_answered_with_those_it_has(run: Run) -> None:
    refused = run("queues", "set", "mail", "--retry", '{"kind": "x"}')
    assert refused.exit_code == 2
    assert "use one of exponential, fixed, none" in refused.stderr
