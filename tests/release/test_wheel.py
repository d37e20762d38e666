"""The wheel works in an empty environment, on each Python of this machine that it promises to run on."""

from __future__ import annotations

import email
import time
import urllib.request
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.pages import README, Block, blocks
from tests.release.kit import run, started, succeed
from tests.release.pythons import present, promised

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]
each_python = pytest.mark.parametrize("python", present().values(), ids=present().keys())


def test_at_least_one_promised_python_is_here() -> None:
    assert present(), f"none of {promised()} is on PATH or under pyenv"


def test_the_wheel_has_the_package_and_nothing_else(dist: Path) -> None:
    names = zipfile.ZipFile(wheel_in(dist)).namelist()
    assert {name.partition("/")[0] for name in names} == {"holdfast", info_of(dist)}
    assert "holdfast/py.typed" in names
    unwanted = [name for name in names if any(word in name for word in ("/tests", "/examples", "test_", "__pycache__"))]
    assert unwanted == []


def test_the_metadata_of_the_wheel(dist: Path) -> None:
    with zipfile.ZipFile(wheel_in(dist)) as archive:
        told = email.message_from_bytes(archive.read(f"{info_of(dist)}/METADATA"))
        entries = archive.read(f"{info_of(dist)}/entry_points.txt").decode()
        licenses = [name for name in archive.namelist() if "/licenses/" in name]
    assert told["Requires-Python"] == ">=3.11"
    assert told["License-Expression"] == "Apache-2.0"
    assert told["Description-Content-Type"] == "text/markdown"
    assert "Typing :: Typed" in told.get_all("Classifier", [])
    # Groups for work on Holdfast itself are not offered to its users.
    assert {"test", "dev", "site"}.isdisjoint(told.get_all("Provides-Extra", []))
    assert "holdfast = holdfast.cli.main:main" in entries
    assert licenses == [f"{info_of(dist)}/licenses/LICENSE"]


def test_the_changelog_has_the_version_of_the_wheel(dist: Path) -> None:
    assert f"\n## {version_of(dist)} " in README.with_name("CHANGELOG.md").read_text("utf-8")


@each_python
def test_the_wheel_alone_runs_the_readme_the_demo_a_worker_and_the_dashboard(
    python: str, dist: Path, tmp_path: Path, figure: Callable[[float, str], None]
) -> None:
    began = time.monotonic()
    succeed([python, "-m", "venv", ".venv"], tmp_path)
    own_python, holdfast = (str(tmp_path / ".venv/bin" / name) for name in ("python", "holdfast"))
    install(own_python, str(wheel_in(dist)), tmp_path)
    program, console = first_program()
    (tmp_path / program.file).write_text(program.text, "utf-8")
    shown = next(shown for typed, shown in console.commands() if typed == f"python {program.file}")
    assert succeed([own_python, program.file], tmp_path) == shown
    figure(round(time.monotonic() - began, 1), "seconds from an empty folder to the first result")

    assert "2,000" in succeed([holdfast, "demo"], tmp_path)

    module = program.file.removesuffix(".py")
    with started([holdfast, "worker", f"{module}:app"], tmp_path, tmp_path / "worker.log"):
        again = f"from {module} import welcome; print(welcome.enqueue('Ada').result(timeout=60))"
        assert succeed([own_python, "-c", again], tmp_path) == shown

    serve = [holdfast, "serve", f"{module}:app", "--port", "0"]
    lacking = run(serve, tmp_path)
    assert (lacking.returncode, lacking.stderr.partition("run: ")[2]) == (2, 'pip install "holdfast[web]"\n')
    install(own_python, f"{wheel_in(dist)}[web]", tmp_path)
    with started(serve, tmp_path, tmp_path / "serve.log") as dashboard:
        address = dashboard.said(r"http://127.0.0.1:\d+")
        with urllib.request.urlopen(f"{address}/api/v1/health/ready", timeout=60) as answer:
            assert answer.status == 200


def wheel_in(dist: Path) -> Path:
    return next(dist.glob("*.whl"))


def version_of(dist: Path) -> str:
    return wheel_in(dist).name.split("-")[1]


def info_of(dist: Path) -> str:
    return f"holdfast-{version_of(dist)}.dist-info"


def install(python: str, what: str, folder: Path) -> None:
    # pip's own code may warn.
    succeed([python, "-m", "pip", "--quiet", "install", what], folder, PYTHONWARNINGS="default")


def first_program() -> tuple[Block, Block]:
    """Return the README's first program, and the console block that runs it."""
    found = blocks(README)
    program = next(block for block in found if block.language == "python" and block.file)
    console = (block for block in found if block.language == "console")
    return program, next(block for block in console if f"python {program.file}" in block.text)
