"""The Dockerfile and the compose file: checked by linters, and their commands run without Docker."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
import yaml

import holdfast
from tests.postgres_server import url_of
from tests.release.kit import ROOT, free_port, run, started, succeed

DOCKERFILE = ROOT / "Dockerfile"
COMPOSE = ROOT / "compose.yaml"

pytestmark = pytest.mark.timeout(600)


def test_the_dockerfile_has_no_complaints_of_the_linter() -> None:
    done = run([str(Path(sys.executable).with_name("hadolint")), "--no-color", str(DOCKERFILE)], ROOT)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_compose_file_fits_its_specification() -> None:
    checker = str(Path(sys.executable).with_name("check-jsonschema"))
    done = run([checker, "--builtin-schema", "vendor.compose-spec", str(COMPOSE)], ROOT, PYTHONWARNINGS="default")
    assert done.returncode == 0, done.stdout


def test_the_image_runs_as_a_user_without_rights_and_without_a_shell() -> None:
    last_stage = DOCKERFILE.read_text("utf-8").rpartition("\nFROM ")[2]
    users = re.findall(r"^USER (.+)$", last_stage, re.MULTILINE)
    assert users and int(users[-1]) >= 1000
    assert image_command()


def test_every_file_of_the_image_is_let_through_by_dockerignore() -> None:
    kept = {
        line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")
    }
    assert {source for sources, _ in copies() for source in sources} <= kept


@pytest.mark.thorough
def test_the_image_is_built_from_the_files_that_it_copies(tmp_path: Path) -> None:
    for sources, to in copies():
        for source in sources:
            target = tmp_path / to / (Path(source).name if to.endswith("/") else "")
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (ROOT / source).is_dir() else shutil.copy)(ROOT / source, target)
    wheels, installed = tmp_path / "wheels", tmp_path / "installed"
    for line in pip_commands():
        given = [word.replace("/wheels", str(wheels)) for word in shlex.split(line)[1:]]
        into = ["--target", str(installed)] if given[0] == "install" else []
        succeed([sys.executable, "-m", "pip", "--quiet", *given, *into], tmp_path, PYTHONWARNINGS="default")
    assert {"holdfast", "psycopg", "starlette"} <= {found.name for found in installed.iterdir()}


@pytest.mark.thorough
def test_the_command_of_the_image_runs_jobs_of_a_sqlite_file(tmp_path: Path) -> None:
    store = str(tmp_path / "orders.db")
    with started(command(image_command()), ROOT, tmp_path / "log", HOLDFAST_STORE=store):
        app = holdfast.App(store)
        assert app.external_task("confirm").enqueue(order=7).result(timeout=60) == "order 7 confirmed"
        app.close()


@pytest.mark.thorough
def test_the_services_of_the_compose_file_work_together(blank_postgres_dsn: str, tmp_path: Path) -> None:
    services = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]
    store = url_of(blank_postgres_dsn)
    entry = image_command()[:1]
    ready = services["dashboard"]["healthcheck"]["test"]
    check = services["worker"]["healthcheck"]["test"]
    assert ready[0] == check[0] == "CMD"
    port = str(free_port())
    work, check = ([word.replace("8080", port) for word in words] for words in (services["worker"]["command"], check))

    succeed(command([*entry, *services["migrate"]["command"]]), ROOT, HOLDFAST_STORE=store)
    # Only what a container has to itself is replaced: the address.
    serve = [{"0.0.0.0": "127.0.0.1", "8787": "0"}.get(word, word) for word in services["dashboard"]["command"]]
    with (
        started(command([*entry, *work]), ROOT, tmp_path / "worker", HOLDFAST_STORE=store) as worker,
        started(command([*entry, *serve]), ROOT, tmp_path / "dashboard", HOLDFAST_STORE=store) as dashboard,
    ):
        port = dashboard.said(r"http://127.0.0.1:\d+").rpartition(":")[2]
        succeed(command([word.replace(":8787", f":{port}") for word in ready[1:]]), ROOT)
        worker.said("serves default")
        assert succeed(command(check[1:]), ROOT) == "ok\n"
        app = holdfast.App(store)
        assert app.external_task("confirm").enqueue(order=7).result(timeout=60) == "order 7 confirmed"
        app.close()


def test_the_services_use_one_store_and_the_worker_has_time_to_stop() -> None:
    services = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]
    own = {name: service for name, service in services.items() if "build" in service}
    assert sorted(own) == ["dashboard", "migrate", "worker"]
    assert len({service["environment"]["HOLDFAST_STORE"] for service in own.values()}) == 1
    assert services["worker"]["stop_grace_period"] == "100s"
    assert all(port.startswith("127.0.0.1:") for port in services["dashboard"]["ports"])


def image_command() -> list[str]:
    """Return what the image runs: the words of ENTRYPOINT and CMD, both written as lists."""
    text = DOCKERFILE.read_text("utf-8")
    return [word for name in ("ENTRYPOINT", "CMD") for word in json.loads(only(rf"^{name} (\[.+\])$", text))]


def copies() -> list[tuple[list[str], str]]:
    """Return what is copied from the repository, and where to."""
    found = re.findall(r"^COPY (?!--)(.+)$", DOCKERFILE.read_text("utf-8"), re.MULTILINE)
    return [(words[:-1], words[-1]) for words in map(str.split, found)]


def pip_commands() -> list[str]:
    unfolded = DOCKERFILE.read_text("utf-8").replace("\\\n", " ")
    return re.findall(r"pip (?:wheel|install) [^&\n]+", unfolded)


def command(words: list[str]) -> list[str]:
    """Return a command of a container with the programs of this environment."""
    program = Path(sys.executable).with_name(words[0])
    assert program.exists(), f"{words[0]} is not installed here"
    return [str(program), *words[1:]]


def only(pattern: str, text: str) -> str:
    found: list[str] = re.findall(pattern, text, re.MULTILINE)
    assert len(found) == 1, f"{pattern} found {len(found)} times"
    return found[0]
