"""Signals and keys at the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from holdfast import App, Context
from holdfast.cli.main import cli
from holdfast.model.jobs import JobState
from holdfast.model.outcomes import Finish, Suspended
from holdfast.model.signals import Condition, Opened, Wait
from holdfast.storage.ops.jobs import claims, finishing
from holdfast.storage.ops.signals import waitpoints
from holdfast.storage.ops.workers import workers
from holdfast.storage.port import Op
from tests.conformance.world import claim_request, worker_spec

from .kit import Run, answer, fill


def suspend(app: App, *, signal: str = "approval") -> tuple[str, Opened]:
    """A job that waits for a signal and for a waitpoint of the same name."""
    store = app.open()
    (job_id,) = fill(app, 1)
    store.write(Op(lambda tx: workers.register(tx, worker_spec("w", queues=("mail",)))))
    (job,) = store.write(Op(lambda tx: claims.claim(tx, claim_request("w", 1, queues=["mail"]))))
    place = store.write(
        Op(lambda tx: waitpoints.open_waitpoint(tx, "w", job_id, job.epoch, "waitpoint:a#1", signal, 10**9))
    )
    wait = Wait(key="wait:a#1", reason="signal", condition=Condition(waitpoints=(place.id,)))
    store.write(Op(lambda tx: finishing.finish(tx, "w", [Finish(job_id, job.epoch, Suspended(wait))])))
    return job_id, place


def test_a_signal_by_name_resumes_a_job(app: App, run: Run) -> None:
    job_id, _ = suspend(app)
    sent = answer(run("signals", "send", job_id, "--name", "approval", "--payload", "true", "--key", "k", "--json"))
    assert sent == {"job_id": job_id, "seq": 1, "effect": "resumed", "again": False, "waits_for": []}
    assert "already stored as" in run(
        "signals", "send", job_id, "--name", "approval", "--payload", "true", "--key", "k"
    ).output  # fmt: skip
    assert app.jobs.get(job_id).state is JobState.READY
    (one,) = answer(run("signals", "received", job_id, "--json"))["signals"]
    assert (one["name"], one["taken_by"]) == ("approval", "wait:a#1")
    assert "wait:a#1" in run("signals", "received", job_id).output


def test_a_token_is_read_from_standard_input(app: App, run: Run) -> None:
    job_id, place = suspend(app)
    done = CliRunner().invoke(cli, ["signals", "send", "-", "--payload", '{"ok": true}'], input=place.token + "\n")
    assert (done.exit_code, done.output) == (0, f"job {job_id}: resumed by signal 1\n")
    again = run("signals", "send", place.token, "--json")
    assert (again.exit_code, "invalid_token" in again.output) == (2, True)


def test_pending_waitpoints_are_shown_without_tokens(app: App, run: Run) -> None:
    job_id, place = suspend(app)
    result = run("signals", "pending", "--json")
    (one,) = answer(result)["waitpoints"]
    assert (one["id"], one["job_id"], one["name"], one["awaited"]) == (place.id, job_id, "approval", True)
    for output in (result.output, run("signals", "pending", job_id).output):
        assert place.token.rpartition(".")[2] not in output
    assert "approval" in run("signals", "pending").output
    assert "nothing pending" in run("signals", "pending", "--tenant", "other").output


def test_a_name_that_a_job_waits_for_is_pending_and_answered_by_its_name(app: App, run: Run) -> None:
    @app.task
    async def listen(ctx: Context) -> object:
        return await ctx.wait_for("go")

    job = listen.enqueue()
    app.drain()
    (one,) = answer(run("signals", "pending", "--json"))["waitpoints"]
    assert (one["id"], one["name"], one["expires_at"]) == (f"{job.id},go", "go", None)
    assert "never" in run("signals", "pending").output
    assert "resumed by signal" in run("signals", "send", job.id, "--name", "go").output
    assert "nothing pending" in run("signals", "pending").output


def test_an_operator_resumes_a_job_and_it_is_recorded(app: App, run: Run) -> None:
    job_id, _ = suspend(app)
    assert (
        run("signals", "resume", job_id, "--payload", "false", "--reason", "late").output == f"job {job_id} resumed\n"
    )
    records = app.audit.list(action="job.resume")
    assert [(record.actor, record.target, record.reason) for record in records] == [("ada", job_id, "late")]
    assert run("signals", "resume", job_id, "--json").exit_code == 4


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("signals", "send", "nobody", "--name", "x"), 3),
        (("signals", "send", "nobody"), 2),
        (("signals", "send", "nobody", "--name", "x", "--payload", "yes"), 2),
        (("signals", "send", "v1.a.b.c"), 2),
        (("signals", "resume", "nobody"), 3),
        (("keys", "revoke", "nothing"), 3),
        (("keys", "rotate", "a.b"), 2),
    ],
)
def test_what_is_wrong_is_one_line_and_a_code(run: Run, words: tuple[str, ...], code: int) -> None:
    result = run(*words)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output


def test_keys_are_seeded_rotated_revoked_and_listed_without_secrets(
    app: App,
    run: Run,
    tmp_path: Path,
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("ab" * 32 + "\n")
    assert answer(run("keys", "seed", "one", "--secret-file", secret, "--json")) == {"kid": "one", "made": True}
    assert "already exists" in run("keys", "seed", "one", "--secret-file", secret).output
    assert run("keys", "revoke", "one").exit_code == 4
    assert answer(run("keys", "rotate", "two", "--grace", "48h", "--json")) == {"kid": "two"}
    assert "key one revoked" in run("keys", "revoke", "one", "--reason", "leaked").output
    listed = run("keys", "list", "--json")
    assert [(key["kid"], key["state"]) for key in answer(listed)["keys"]] == [("one", "revoked"), ("two", "active")]
    for output in (listed.output, run("keys", "list").output, run("audit", "list").output):
        assert "ab" * 32 not in output
    assert {record.action for record in app.audit.list()} == {"key.seed", "key.rotate", "key.revoke"}


def test_a_signal_without_its_name_is_told_to_name_it(app: App, run: Run) -> None:
    (job_id,) = fill(app, 1)
    refused = run("signals", "send", job_id, "--payload", "true")
    assert refused.exit_code == 2
    assert "--name NAME" in refused.output
