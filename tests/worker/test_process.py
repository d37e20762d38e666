from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.worker.processes import identity
from holdfast.worker.processes.identity import is_gone, process_key

from .programs import ENV, python

PRINT_KEY = "from holdfast.worker.processes.identity import process_key; print(process_key(), flush=True); input()"


def child() -> subprocess.Popen[str]:
    return subprocess.Popen(python(PRINT_KEY), env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def first_line(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().strip()


def test_the_key_of_this_process_is_stable_and_names_its_pid() -> None:
    assert process_key() == process_key()
    assert process_key().split(":")[-2] == str(os.getpid())
    assert not is_gone(process_key())


def test_a_process_is_gone_once_it_has_died_even_while_nobody_reaped_it() -> None:
    with child() as other:
        key = first_line(other)
        assert key
        assert not is_gone(key)
        other.kill()
        os.waitid(os.P_PID, other.pid, os.WEXITED | os.WNOWAIT)
        assert is_gone(key), "a zombie holds its pid, but runs no more"
        other.wait()
        assert is_gone(key)


def test_a_pid_that_was_given_to_another_process_does_not_keep_the_first_alive() -> None:
    scope, pid, ticks = process_key().rsplit(":", 2)
    assert is_gone(f"{scope}:{pid}:{int(ticks) - 1}")


@pytest.mark.parametrize("key", ["", "x", "::", ":::::", "a:b:c", "no:1:2:3:x"])
def test_a_key_that_nobody_could_have_made_is_not_gone(key: str) -> None:
    assert not is_gone(key)


def test_a_process_of_another_boot_or_namespace_is_never_judged() -> None:
    boot, namespace, time, pid, _ = process_key().split(":")
    assert not is_gone(f"other-boot:{namespace}:{time}:{pid}:1")
    assert not is_gone(f"{boot}:1:{time}:{pid}:1")
    assert not is_gone(f"{boot}:{namespace}:1:{pid}:1")


def test_a_system_without_proc_knows_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dead = process_key().rsplit(":", 1)[0] + ":1"
    monkeypatch.setattr(identity, "_PROC", tmp_path)
    assert process_key() == ""
    assert not is_gone(dead)


def test_a_program_name_with_brackets_and_blanks_does_not_confuse(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rest = " ".join(str(n) for n in range(4, 53))
    (tmp_path / "7").mkdir()
    (tmp_path / "7/stat").write_text(f"7 (a) R 1 (b) S {rest}")
    monkeypatch.setattr(identity, "_PROC", tmp_path)
    assert identity._stat("7") == (7, "S", 22)


def test_a_living_process_that_proc_hides_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    key = process_key().rsplit(":", 2)[0]
    hidden = os.getppid()
    real = identity._stat
    monkeypatch.setattr(identity, "_stat", lambda pid: None if pid == str(hidden) else real(pid))
    assert not is_gone(f"{key}:{hidden}:1")
