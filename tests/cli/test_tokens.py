"""Tokens at the command line: a secret is printed once, and nowhere else."""

from __future__ import annotations

import json
import logging

import pytest

from holdfast import App

from .kit import Run, answer


def test_a_token_is_made_listed_and_revoked_and_it_is_recorded(app: App, run: Run) -> None:
    made = answer(
        run("tokens", "create", "ci", "--role", "operator", "--expires", "30d", "--reason", "builds", "--json")
    )
    assert (made["name"], made["state"], made["role"], made["created_by"]) == ("ci", "active", "operator", "ada")
    assert made["scopes"] == ["read", "payload", "enqueue", "signal", "operate"]
    assert made["expires_at"] > made["created_at"]
    caller = app.tokens.identify(made["secret"])
    assert caller is not None
    assert caller.token_id == made["id"]

    (listed,) = answer(run("tokens", "list", "--json"))["tokens"]
    assert listed == {**{key: made[key] for key in made if key != "secret"}, "last_used_at": listed["last_used_at"]}
    assert listed["last_used_at"] is not None
    assert answer(run("tokens", "revoke", "ci", "--reason", "it leaked", "--json")) == {"revoked": True}
    assert answer(run("tokens", "revoke", made["id"], "--json")) == {"revoked": False}
    assert "the token was already revoked" in run("tokens", "revoke", "ci").output
    assert app.tokens.identify(made["secret"]) is None

    records = app.audit.list(target_kind="token", target=made["id"])
    assert [(record.action, record.actor, record.reason) for record in reversed(records)] == [
        ("token.create", "ada", "builds"),
        ("token.revoke", "ada", "it leaked"),
    ]


def test_the_secret_is_alone_on_standard_output(app: App, run: Run) -> None:
    made = run("tokens", "create", "gpu", "--scope", "work", "--scope", "read")
    assert made.exit_code == 0
    caller = app.tokens.identify(made.stdout.removesuffix("\n"))
    assert caller is not None
    assert caller.scopes == {"work", "read"}
    assert "gpu: read, work; expires never" in made.stderr


def test_no_secret_is_listed_audited_logged_or_stored(app: App, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    made = run("tokens", "create", "ci", "--role", "admin")
    secret = made.stdout.strip()
    opened = app.tokens.login(secret)
    assert opened is not None
    app.tokens.logout(opened[0])
    app.tokens.revoke("ci")
    shown = [
        run(*words).output
        for words in [("tokens", "list"), ("tokens", "list", "--json"), ("audit", "list"), ("audit", "list", "--json")]
    ]
    everything = "".join([*shown, made.stderr, caplog.text, repr(app.tokens.list()), repr(app.audit.list())])
    for word in (secret, opened[0]):
        assert word not in everything
        assert word[4:] not in everything


def test_the_list_says_what_each_is_good_for(app: App, run: Run) -> None:
    assert "tokens create NAME --role viewer" in run("tokens", "list").output
    app.tokens.create("ada", role="admin")
    app.tokens.create("partner", scopes=["read", "enqueue"], tenant="acme", expires=60)
    text = run("tokens", "list").output
    assert [line.split()[1:4] for line in text.splitlines()[1:]] == [
        ["ada", "active", "admin"],
        ["partner", "active", "read,"],
    ]
    assert "acme" in text


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "a role or scopes"),
        (["--role", "viewer", "--scope", "work"], 2, "not both"),
        (["--role", "root"], 2, "'viewer', 'operator', 'admin'"),
        (["--scope", "fly"], 2, "'enqueue'"),
        (["--role", "viewer", "--expires", "soon"], 2, "not a duration"),
        (["--role", "viewer", "--expires", "0"], 2, "more than 0 seconds"),
        (["--role", "viewer", "--tenant", "a\nb"], 2, "tenant"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(run: Run, words: list[str], code: int, said: str) -> None:
    refused = run("tokens", "create", "ci", *words, "--json")
    assert refused.exit_code == code
    assert said in json.loads(refused.stdout)["error"]["message"]


def test_a_name_in_force_a_long_one_and_a_missing_one_are_refused(app: App, run: Run) -> None:
    app.tokens.create("ci", role="viewer")
    twice = answer(run("tokens", "create", "ci", "--role", "viewer", "--json"), code=4)
    assert twice["error"]["code"] == "token_conflict"
    long = answer(run("tokens", "create", "x" * 129, "--role", "viewer", "--json"), code=2)
    assert "shorten it to 128" in long["error"]["message"]
    missing = answer(run("tokens", "revoke", "nothing", "--json"), code=3)
    assert missing["error"]["code"] == "not_found"


def test_a_token_is_confined_to_queues_and_tasks(app: App, run: Run) -> None:
    what = ("--scope", "work", "--scope", "enqueue", "--queues", "mail", "--queues", "sms", "--tasks", "send")
    made = answer(run("tokens", "create", "mailer", *what, "--json"))
    assert (made["queues"], made["tasks"]) == (["mail", "sms"], ["send"])
    assert "queues mail, sms; tasks send" in " ".join(run("tokens", "list").output.split())
    refused = answer(run("tokens", "create", "boss", "--role", "admin", "--queues", "mail", "--json"), code=2)
    assert "confined" in refused["error"]["message"]


def test_a_name_of_the_engine_is_refused_at_the_command_line(app: App, run: Run) -> None:
    for what in (("webhook.deliver",), ("outbox.cloud",), ("mail", "--queue", "webhooks")):
        refused = answer(run("jobs", "enqueue", *what, "--json"), code=2)
        assert refused["error"]["code"] == "reserved_name"
