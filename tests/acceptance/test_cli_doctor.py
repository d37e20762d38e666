"""`holdfast doctor`."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from tests.acceptance.cli_kit import Answer, call


@pytest.fixture
def store(store_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HOLDFAST_STORE", store_url)
    call("db", "create")
    return store_url


def problems(answer: Answer) -> list[str]:
    return [f"{check['name']}: {check['text']}" for check in answer.data["checks"] if check["weight"] == "problem"]


def test_a_sound_store_is_healthy(store: str) -> None:
    answer = call("doctor", "--json")
    # The server of the tests is fast rather than safe, and the doctor says so.
    unsafe = ["durability: fsync is off: a crash of the server may corrupt the database"]
    assert problems(answer) == (unsafe if answer.data["store"]["backend"] == "postgres" else [])
    assert answer.code == len(problems(answer))
    assert {"holdfast", "python", "sqlite", "psycopg"} <= answer.data["versions"].keys()
    names = {check["name"] for check in answer.data["checks"]}
    assert {"schema", "write", "clock", "workers"} <= names


def test_a_person_gets_the_same_in_words(store: str) -> None:
    out = call("doctor").out
    for title in ("Versions", "Settings", "Store", "Checks"):
        assert f"\n{title}\n" in out
    assert "a test write took" in out
    assert "no live workers" in out


def test_a_live_worker_is_counted(store: str) -> None:
    app = holdfast.App(store)
    with app.worker(name="here"):
        assert "1 alive: here" in call("doctor").out
    app.close()


def test_settings_are_shown_with_their_origin(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_LEASE", "12")
    settings = call("doctor", "--json").data["settings"]
    assert settings["lease"] == {"value": 12.0, "from": "HOLDFAST_LEASE"}
    assert settings["grace"]["from"] == "default"


def test_a_misspelt_variable_is_a_problem(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_LEESE", "12")
    answer = call("doctor", "--json")
    assert answer.code == 1
    assert any("HOLDFAST_LEESE" in text for text in problems(answer))


def test_a_wrong_setting_is_a_problem(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_LEASE", "0.5")
    answer = call("doctor", "--json")
    assert answer.code == 1
    assert any("lease" in text for text in problems(answer))


def test_a_pending_migration_is_a_problem_and_stays_pending(store: str) -> None:
    call("db", "drop", "--force")
    for _ in range(2):
        assert any("holdfast db migrate" in text for text in problems(call("doctor", "--json")))


def test_a_server_that_is_down_is_a_problem_and_its_password_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_STORE", "postgresql://me:s3cret@127.0.0.1:1/shop?sslpassword=hidd3n")
    for answer in (call("doctor"), call("doctor", "--json")):
        assert answer.code == 1
        assert "cannot connect" in answer.out
        assert "s3cret" not in answer.out
        assert "hidd3n" not in answer.out
        assert "postgresql://me:***@127.0.0.1:1/shop?sslpassword=***" in answer.out


def test_a_file_that_is_no_database_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.db").write_text("dear diary, " * 100)
    monkeypatch.setenv("HOLDFAST_STORE", str(tmp_path / "notes.db"))
    answer = call("doctor", "--json")
    assert answer.code == 1
    assert any("not a SQLite database" in text for text in problems(answer))
