"""The password in a store's address is never shown, whatever is wrong with the address."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import holdfast
from holdfast.cli.main import cli
from holdfast.errors import ConfigError, HoldfastError
from holdfast.runtime.opening import redacted

PASSWORDS = ["s3cret", "s3/cret", "s3@cret", "s3@/cret", "s3 cret", "s3:cret", "s3?cret", "s3#cret", "s3%cret",
             "12/s3cret", "s3\ncret", "[s3cret", "s3//cret"]  # fmt: skip
FORMS = ["postgresql://ada:{}@127.0.0.1:1/shop", "postgres://ada:{}@127.0.0.1:1", "postgresql://a/da:{}@127.0.0.1:1/x",
         "ada:{}@127.0.0.1:1/shop", "postgresql:ada:{}@127.0.0.1/x", "postgres//ada:{}@127.0.0.1/x",
         "postgresql:/ada:{}@127.0.0.1/x", "postgresql+asyncpg://ada:{}@h/x", "//ada:{}@127.0.0.1/x",
         " postgresql://ada:{}@127.0.0.1:1/x"]  # fmt: skip


def is_in(text: str) -> bool:
    return "s3" in text or "cret" in text


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("password", PASSWORDS)
def test_a_password_is_in_no_message_and_in_no_setting(form: str, password: str) -> None:
    where = form.format(password)
    assert not is_in(redacted(where)), redacted(where)
    with pytest.raises(HoldfastError) as refused:
        holdfast.App(where).jobs.counts()
    assert not is_in(str(refused.value)), str(refused.value)


@pytest.mark.parametrize("password", ["s3/cret", "s3@cret", "s3 cret", "12/s3cret"])
@pytest.mark.parametrize("command", ["doctor", "doctor --json", "jobs list", "worker", "db migrate"])
def test_no_command_prints_it(password: str, command: str) -> None:
    where = f"postgresql://ada:{password}@127.0.0.1:1/shop"
    if command == "worker":  # it needs an app, and says so
        result = CliRunner().invoke(cli, ["worker"], env={"HOLDFAST_STORE": where})
    else:
        result = CliRunner().invoke(cli, [*command.split(), "--store", where], env={"HOLDFAST_STORE": None})
    assert result.exit_code != 0
    assert not is_in(result.output + result.stderr), result.output


@pytest.mark.parametrize("path", ["shop.db", "/data/shop@home:1.db", "./a:b@c.db", "C:\\jobs\\a@b.db", "a@b.db"])
def test_a_path_is_shown_as_it_is(path: str) -> None:
    assert redacted(path) == path


def test_a_user_and_a_password_without_a_scheme_are_not_taken_for_a_file() -> None:
    with pytest.raises(ConfigError, match="write postgresql:// before the user"):
        holdfast.App("ada:secret@db.example/shop").open()
