"""A full disk: nothing half-written, jobs may still finish, and it heals by itself."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.errors import StorageFull
from holdfast.storage.port import Op
from holdfast.storage.sqlite import SqliteStore, reserve_file
from tests.unit.sqlite_kit import TEXTS, add, prepare

ROOM = 12 * 1024 * 1024


@dataclass
class Disk:
    """A small file system of its own where one can be mounted; elsewhere, a limit on the database's pages."""

    folder: Path
    mounted: bool
    monkeypatch: pytest.MonkeyPatch

    def fill(self, store: SqliteStore) -> None:
        if self.mounted:
            free = shutil.disk_usage(self.folder).free
            (self.folder / "filler").write_bytes(bytes(free))
        else:
            self._limit(store, 1, 0)

    def free(self, store: SqliteStore) -> None:
        if self.mounted:
            (self.folder / "filler").unlink()
        else:
            self._limit(store, 1_000_000, ROOM)

    def take_the_ballasts_room(self, store: SqliteStore) -> None:
        """What removing a file does by itself on a real disk."""
        if not self.mounted:
            self._limit(store, 1_000_000, 0)

    def _limit(self, store: SqliteStore, pages: int, free: int) -> None:
        store._session().writer.connection.execute(f"pragma max_page_count={pages}").fetchall()
        self.monkeypatch.setattr(reserve_file, "_free", lambda path: free)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(folder)]
    mounted = shutil.which("mount") is not None and subprocess.run(command, capture_output=True).returncode == 0
    yield Disk(folder, mounted, monkeypatch)
    if mounted:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def store(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    monkeypatch.setattr(reserve_file, "_RETRY", 0.0)
    store = prepare(SqliteStore(disk.folder / "jobs.db"))
    yield store
    store.close()


def overboard(disk: Disk) -> bool:
    return not (disk.folder / "jobs.db-ballast").exists()


def write_until_full(store: SqliteStore) -> list[str]:
    kept: list[str] = []
    for n in range(10_000):
        text = f"{n} " + "x" * 2_000
        try:
            store.write(add(text))
        except StorageFull:
            return kept
        kept.append(text)
    raise AssertionError("the disk never got full")


def test_what_was_acknowledged_before_the_disk_was_full_is_there_and_nothing_else(
    store: SqliteStore, disk: Disk
) -> None:
    disk.fill(store)
    kept = write_until_full(store)
    assert store.read(TEXTS) == kept
    assert not store._session().writer.connection.in_transaction
    disk.free(store)
    store.write(add("healed"))
    assert store.read(TEXTS) == [*kept, "healed"]


def test_the_ballast_goes_overboard_and_comes_back_with_the_space(store: SqliteStore, disk: Disk) -> None:
    assert not overboard(disk)
    disk.fill(store)
    write_until_full(store)
    assert overboard(disk)
    disk.free(store)
    store.write(add("healed"))
    assert not overboard(disk)


def test_work_of_the_engine_uses_the_ballasts_room_and_others_are_refused(store: SqliteStore, disk: Disk) -> None:
    disk.fill(store)
    write_until_full(store)
    disk.take_the_ballasts_room(store)
    store.write(Op(add("finished").run, patience=1))
    with pytest.raises(StorageFull, match="free space"):
        store.write(add("new work"))
    assert store.read(TEXTS)[-1] == "finished"


def test_the_engines_own_write_that_finds_the_disk_full_gets_through(
    store: SqliteStore, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    really = reserve_file.Ballast.release

    def release(self: reserve_file.Ballast) -> None:
        really(self)
        disk.take_the_ballasts_room(store)

    monkeypatch.setattr(reserve_file.Ballast, "release", release)
    disk.fill(store)
    for n in range(40):
        store.write(Op(add(f"{n} " + "x" * 4_000).run, patience=1))
    assert overboard(disk)
    assert len(store.read(TEXTS)) == 40


@pytest.mark.parametrize("spare", [0, 100_000])
def test_a_disk_too_small_for_a_ballast_is_used_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spare: int
) -> None:
    monkeypatch.setattr(reserve_file, "_free", lambda path: spare)
    store = prepare(SqliteStore(tmp_path / "jobs.db"))
    assert not (tmp_path / "jobs.db-ballast").exists()
    store._session().writer.connection.execute("pragma max_page_count=1").fetchall()
    with pytest.raises(StorageFull):
        store.write(add("x" * 100_000))
    store._session().writer.connection.execute("pragma max_page_count=1000000").fetchall()
    assert store.write(add("small")) == 1
    store.close()


def test_a_database_survives_a_full_disk_unharmed(store: SqliteStore, disk: Disk) -> None:
    disk.fill(store)
    kept = write_until_full(store)
    store.close()
    connection = sqlite3.connect(disk.folder / "jobs.db")
    assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    assert connection.execute("select count(*) from note").fetchone() == (len(kept),)
    connection.close()
