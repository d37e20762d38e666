"""The scene of a file that is moved, removed, forbidden or made read-only under a worker and a producer on SQLite.

python -m tests.chaos.environment_faults.lost_file FOLDER moved|removed|read_only|forbidden    (see mounts.py)
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import holdfast
from tests.acceptance.fleet import ROOT
from tests.chaos.environment_faults.crew import Crew, crew
from tests.chaos.environment_faults.mounts import remount, small_disk
from tests.chaos.environment_faults.tasks import producer


def main(folder: Path, what: str) -> None:
    disk = small_disk(mebibytes=64)
    store = disk / "jobs.db"
    scenes: tuple[Callable[[holdfast.App, Crew, Path], None], ...] = (moved, removed, read_only, forbidden)
    scene = next(one for one in scenes if one.__name__ == what)
    with producer(str(store)) as app, crew(str(store), folder) as workers:
        scene(app, workers, store)
        if store.exists():
            workers.wait_for_all(app)
            assert set(workers.stop_all()) == {0}
            workers.require(app)
    print(json.dumps({"lines": len(workers.lines())}))


def moved(app: holdfast.App, workers: Crew, store: Path) -> None:
    """Away and back: all that was acknowledged is there, and who had it open goes on."""
    app.migrate()
    workers.start()
    for _ in range(5):
        task_is_done(app, workers)
        aside = store.with_name("aside.db")
        store.rename(aside)
        refused(app, workers, "StorageUnavailable")
        workers.wait(lambda: workers.says("StorageUnavailable") > 0, "the worker says what it misses")
        assert not store.exists(), "nobody makes an empty one"
        aside.rename(store)
        workers.wait(lambda: accepted(app, workers), "it is found again")


def removed(app: holdfast.App, workers: Crew, store: Path) -> None:
    """Gone with all it had: that is told, and not covered up by an empty store."""
    app.migrate()
    workers.start()
    task_is_done(app, workers)
    for name in ("jobs.db", "jobs.db-wal", "jobs.db-shm"):
        store.with_name(name).unlink()
    refused(app, workers, "StorageUnavailable")
    workers.wait(lambda: workers.says("put it back") > 0, "the worker says what to do")
    refused(app, workers, "StorageUnavailable")
    assert not store.exists(), "nobody makes an empty one"


def read_only(app: holdfast.App, workers: Crew, store: Path) -> None:
    """A file system that may only be read: a typed refusal, a worker that waits, and both go on by themselves."""
    app.migrate()
    app.close()
    assert remount(store.parent, "ro")
    refused(app, workers, "StorageReadOnly")
    workers.start()
    workers.wait(lambda: workers.says("StorageReadOnly") > 0, "the worker says that it may not write")
    app.close()
    assert remount(store.parent, "rw")
    workers.wait(lambda: accepted(app, workers), "it may be written again")


def forbidden(app: holdfast.App, workers: Crew, store: Path) -> None:
    """The file's mode is changed: who has it open goes on, who comes later waits, until it is changed back."""
    app.migrate()
    start_without_privilege(workers)
    task_is_done(app, workers)
    set_modes(store, 0o555, 0o444)
    task_is_done(app, workers)
    start_without_privilege(workers)
    workers.wait(lambda: workers.says("StorageReadOnly") > 0, "the newcomer says that it may not write")
    set_modes(store, 0o777, 0o600)
    workers.wait(lambda: workers.says("serves default") == 2, "the newcomer works")
    task_is_done(app, workers)


def start_without_privilege(workers: Crew) -> None:
    """A worker to whom modes of files matter, though it is root."""
    privileges = "-dac_override,-dac_read_search"
    bound = ["setpriv", f"--bounding-set={privileges}", f"--inh-caps={privileges}"]
    with workers.log.open("ab") as log:
        command = [*bound, sys.executable, "-m", "holdfast", "worker", workers.app]
        workers.workers.append(subprocess.Popen(command, env=workers.environment, cwd=ROOT, stdout=log, stderr=log))


def set_modes(store: Path, folder: int, files: int) -> None:
    for path in store.parent.glob("jobs.db*"):
        path.chmod(files)
    store.parent.chmod(folder)


def task_is_done(app: holdfast.App, workers: Crew) -> None:
    job = workers.enqueue(app.tasks["entry"], 0)
    workers.wait(lambda: app.jobs.get(job).state == "succeeded", "a job is done")


def refused(app: holdfast.App, workers: Crew, kind: str) -> None:
    try:
        workers.enqueue(app.tasks["entry"], 0)
    except holdfast.errors.StorageError as error:
        assert type(error).__name__ == kind, error
    else:
        raise AssertionError(f"it was stored, where {kind} was due")


def accepted(app: holdfast.App, workers: Crew) -> bool:
    try:
        task_is_done(app, workers)
    except holdfast.errors.StorageError:
        return False
    return True


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
