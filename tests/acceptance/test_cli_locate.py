"""How a command finds its app or its store, and what it says when it does not."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.cli_kit import call, finished, program


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder, and an environment that is put back as it was."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("HOLDFAST_STORE", "")
    monkeypatch.delenv("HOLDFAST_STORE")
    yield tmp_path
    for name in [name for name, module in sys.modules.items() if str(tmp_path) in str(getattr(module, "__file__", ""))]:
        del sys.modules[name]


def module(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.py").write_text(text, "utf-8")


def test_nothing_named_is_an_error_that_says_what_to_name() -> None:
    answer = call("jobs", "list")
    assert answer.code == 2
    assert "--store URL" in answer.err
    assert "HOLDFAST_APP" in answer.err
    assert "pyproject.toml" in answer.err


def test_a_module_that_does_not_exist_is_named() -> None:
    answer = call("jobs", "list", "--app", "nowhere.jobs:app")
    assert answer.code == 2
    assert "there is no module 'nowhere'" in answer.err


def test_a_module_that_lacks_a_module_of_its_own_is_told_apart(folder: Path) -> None:
    module(folder, "needy", "import nowhere_else\n")
    assert (
        "importing 'needy' failed: it needs a module 'nowhere_else'" in call("jobs", "list", "--app", "needy:app").err
    )


def test_an_error_in_the_module_is_one_line_and_a_traceback_only_with_debug(folder: Path) -> None:
    module(folder, "broken", "1 / 0\n")
    answer = call("jobs", "list", "--app", "broken:app")
    assert answer.err == "error: importing 'broken' failed: ZeroDivisionError: division by zero\n"
    assert "Traceback" in call("jobs", "list", "--app", "broken:app", "--debug").err


def test_a_missing_attribute_is_answered_with_the_apps_that_are_there(folder: Path) -> None:
    module(folder, "shopa", "import holdfast\nqueue = holdfast.App('a.db')\n")
    assert "module 'shopa' has no 'app'; it has shopa:queue" in call("jobs", "list", "--app", "shopa").err


def test_something_that_is_not_an_app_is_refused(folder: Path) -> None:
    module(folder, "shopb", "app = 5\n")
    answer = call("jobs", "list", "--app", "shopb:app", "--json")
    assert (answer.code, answer.data["error"]["code"]) == (2, "config")
    assert "of type int, not a holdfast.App" in answer.data["error"]["message"]


def test_a_path_in_place_of_a_module_is_explained() -> None:
    assert "write it as in an import" in call("worker", "shop/jobs.py").err


def project(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pyproject.toml"
    file.write_text(text, "utf-8")
    return file


def shop(folder: Path, name: str, store: str) -> None:
    module(folder, name, f"import holdfast\napp = holdfast.App({store!r})\n@app.task\ndef work(n: int): ...\n")


def test_the_app_of_the_project_is_found_from_its_folder_and_from_those_below(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(folder, '[tool.holdfast]\napp = "shopc:app"\n')
    shop(folder, "shopc", str(folder / "c.db"))
    assert call("jobs", "enqueue", "work", "--args", "[1]").code == 0
    below = folder / "src" / "deep"
    project(below, '[tool.other]\nname = "holdfast"\n')
    monkeypatch.chdir(below)
    answer = call("jobs", "list", "--json")
    assert [job["task"] for job in answer.data["jobs"]] == ["work"]
    assert "the app has no task 'other'" in call("jobs", "enqueue", "other").err


def test_the_command_line_wins_over_the_variable_and_the_variable_over_the_project(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(folder, '[tool.holdfast]\napp = "shopd:app"\n')
    for name in ("shopd", "shope", "shopf"):
        shop(folder, name, f"{name}.db")
    assert "shopd.db" in call("jobs", "list").err
    monkeypatch.setenv("HOLDFAST_APP", "shope:app")
    assert "shope.db" in call("jobs", "list").err
    assert "shopf.db" in call("jobs", "list", "--app", "shopf:app").err


def test_a_store_named_alone_imports_no_code_of_the_project_but_a_worker_does(folder: Path) -> None:
    project(folder, '[tool.holdfast]\napp = "nowhere:app"\n')
    assert call("jobs", "list", "--store", "new.db").code == 0
    assert "there is no module 'nowhere'" in call("worker", "--store", "new.db").err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.holdfast\n", "cannot be read: "),
        ('[tool]\nholdfast = "shop:app"\n', "tool.holdfast is not a table"),
        ("[tool.holdfast]\n", '[tool.holdfast] needs app = "MODULE:APP"'),
        ("[tool.holdfast]\napp = 5\n", '[tool.holdfast] needs app = "MODULE:APP"'),
        ('[tool.holdfast]\napp = "a:b"\nstore = "x"\n', "[tool.holdfast] has no setting 'store'; it has app"),
        ('[tool.holdfast]\napp = "nowhere:app"\n', "there is no module 'nowhere' in "),
        ('[tool.holdfast]\napp = "shop/jobs.py"\n', "'shop/jobs.py' is not MODULE:APP"),
    ],
)
def test_what_is_wrong_with_the_app_of_the_project_is_said_with_the_name_of_its_file(
    folder: Path, text: str, said: str
) -> None:
    file = project(folder, text)
    for command in (["jobs", "list"], ["worker"]):
        answer = call(*command)
        assert answer.code == 2
        assert said in answer.err
        assert str(file) in answer.err


def test_a_project_that_does_not_mention_holdfast_is_left_alone(folder: Path) -> None:
    project(folder, "[tool.unfinished\n")
    assert "which store?" in call("jobs", "list").err


@pytest.mark.parametrize(
    "command", ["jobs list", "queues list", "db status", "db verify", "stats", "cron list", "signals pending", "doctor"]
)
def test_a_command_on_a_new_path_creates_the_file_and_says_so(folder: Path, command: str) -> None:
    answer = call(*command.split(), "--store", "new.db")
    assert answer.code == 0, answer
    assert answer.err == f"created a new SQLite database: {folder / 'new.db'}\n"
    assert (folder / "new.db").exists()
    assert "created" not in call(*command.split(), "--store", "new.db").err


def test_serve_on_a_new_path_creates_the_file_says_so_and_serves(folder: Path) -> None:
    process = program("serve", "--store", "new.db", "--port", "0", folder=folder)
    assert process.stdout is not None
    assert "Holdfast on http" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert f"created a new SQLite database: {folder / 'new.db'}" in finished(process).err


def test_json_stays_json_where_a_file_was_created() -> None:
    assert call("jobs", "list", "--store", "new.db", "--json").data["jobs"] == []


def test_a_new_path_in_a_folder_that_does_not_exist_is_an_error_that_says_so(folder: Path) -> None:
    answer = call("jobs", "list", "--store", "nowhere/new.db")
    assert answer.code == 5
    assert "there is no directory" in answer.err
    assert list(folder.iterdir()) == []


def test_the_app_of_the_current_folder_is_found_with_its_store(folder: Path) -> None:
    module(folder, "shopc", "import holdfast\napp = holdfast.App('c.db')\n")
    assert call("db", "create", "--app", "shopc:app").code == 0
    assert (folder / "c.db").exists()
    assert call("jobs", "list", "--app", "shopc:app").out == "no jobs\n"


def test_a_store_on_the_command_line_wins_over_the_apps_own(folder: Path) -> None:
    module(folder, "shopd", "import holdfast\napp = holdfast.App('d.db')\n")
    assert call("db", "create", "--app", "shopd:app", "--store", "other.db").code == 0
    assert sorted(file.name for file in folder.glob("*.db")) == ["other.db"]


def test_the_store_may_come_from_the_settings_file(folder: Path) -> None:
    (folder / "holdfast.toml").write_text('store = "from-toml.db"\n')
    assert call("db", "create").code == 0
    assert (folder / "from-toml.db").exists()


def test_an_unknown_scheme_is_refused() -> None:
    answer = call("jobs", "list", "--store", "mysql://localhost/x")
    assert answer.code == 2
    assert "no store for mysql://" in answer.err


def test_a_server_that_is_down_is_a_storage_error_without_the_password() -> None:
    answer = call("jobs", "list", "--store", "postgresql://me:s3cret@127.0.0.1:1/shop", "--json")
    assert (answer.code, answer.data["error"]["code"]) == (5, "unavailable")
    assert "s3cret" not in answer.out
