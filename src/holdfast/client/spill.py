"""Jobs that the store could not take, kept in files until it can: `App(spill="folder")`.

A file is one call, whole; it is on disk before `enqueue` returns. Files are replayed in the order in which they were
made, and the first that the store does not take now ends the replay. One that it never will, because it cannot be read
or is refused, is moved to `bad/` with the reason, and the others continue.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from ..clock import SYSTEM_CLOCK, Clock
from ..errors import (
    ConfigError,
    HoldfastError,
    OutcomeUnknown,
    SelfLocked,
    StorageBusy,
    StorageFull,
    StorageUnavailable,
)
from ..ids import ids
from ..model.jobs import Enqueued, JobSpec
from ..storage.daemons import start_daemon
from ..storage.disk import sync_folder
from ..storage.forking import renew_after_fork
from ..storage.ops.outbox import entries
from ..storage.port import Op, Store

logger: Final = logging.getLogger("holdfast")

AWAY: Final = (StorageBusy, StorageUnavailable, StorageFull, OutcomeUnknown)
"""Temporary errors: the store is locked, down or full, or the connection broke."""
_SUFFIX: Final = ".json"
_OWN_FOLDER: Final = 0o700
_BETWEEN_TRIES: Final = 2.0
_NO_KEYS: Final[Mapping[str, str]] = MappingProxyType({})
_encode: Final = msgspec.json.Encoder().encode


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a file: the jobs of one call, and the keys by which an outbox delivers them in order, by job."""

    jobs: list[JobSpec]
    keys: dict[str, str] = {}


_decode: Final = msgspec.json.Decoder(Kept).decode


class Spill:
    """One folder, for any number of processes of this host."""

    def __init__(self, folder: str | os.PathLike[str], store: Callable[[], Store], clock: Clock | None = None) -> None:
        self.folder: Final = Path(folder)
        _check_folder(self.folder)
        self._store = store
        self._clock = clock or SYSTEM_CLOCK
        self._waits = bool(self.waiting())
        self.renew_after_fork()
        renew_after_fork(self)

    def renew_after_fork(self) -> None:
        """Start with a new lock and thread in a forked child: the parent's lock might never be released here."""
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def put(
        self, specs: Sequence[JobSpec], write: Callable[[], list[Enqueued]], keys: Mapping[str, str] = _NO_KEYS
    ) -> list[Enqueued]:
        """Store these jobs, or keep them here; jobs that were kept before come first."""
        try:
            if self._waits:
                self.replay()
            return write()
        except SelfLocked:
            raise  # a mistake of the caller, which waiting does not fix
        except AWAY as error:
            return self._keep(specs, keys, error)

    async def aput(
        self,
        specs: Sequence[JobSpec],
        write: Callable[[], Awaitable[list[Enqueued]]],
        keys: Mapping[str, str] = _NO_KEYS,
    ) -> list[Enqueued]:
        """The async version of `put`. The replay runs on the thread: it must not block the loop."""
        try:
            if self._waits:
                raise StorageUnavailable("older jobs wait in the spill")
            return await write()
        except SelfLocked:
            raise
        except AWAY as error:
            return self._keep(specs, keys, error)

    def waiting(self) -> list[Path]:
        """Return the waiting files, oldest first."""
        return sorted(path for path in self.folder.glob(f"*{_SUFFIX}") if path.is_file())

    def bad(self) -> list[Path]:
        """Return the files that were moved to `bad/`."""
        return sorted((self.folder / "bad").glob(f"*{_SUFFIX}"))

    def replay(self) -> int:
        """Replay the waiting files into the store, in order; return the number of jobs. Raises the store's error."""
        done = 0
        with self._alone():
            while paths := self._left():
                done += sum(map(self._replay, paths))
        if done:
            logger.info("%d jobs went from %s into the store", done, self.folder)
        return done

    def _left(self) -> list[Path]:
        # Under the lock: a file that is written while these are replayed is seen the next time, or starts a new try.
        with self._lock:
            paths = self.waiting()
            self._waits = bool(paths)
        return paths

    def _replay(self, path: Path) -> int:
        try:
            kept = _decode(path.read_bytes())
            # An outbox may exceed its cap by what was kept here: it was acknowledged, and the next put makes room.
            answers = self._store().write(Op(lambda tx: entries.put(tx, kept.jobs, kept.keys, None))).answers
        except AWAY:
            raise
        except (HoldfastError, msgspec.DecodeError, ValueError, OSError) as wrong:
            self._set_aside(path, wrong)
            return 0
        # After the commit: a crash in between stores them again, and their ids make that a duplicate.
        path.unlink(missing_ok=True)
        return sum(answer.created for answer in answers)

    def _set_aside(self, path: Path, wrong: Exception) -> None:
        aside = self.folder / "bad"
        aside.mkdir(mode=_OWN_FOLDER, exist_ok=True)
        with open(aside / f"{path.stem}.txt", "w", encoding="utf-8", opener=_private) as note:
            note.write(f"{type(wrong).__name__}: {wrong}\n")
        path.replace(aside / path.name)
        logger.error("%s cannot be stored (%s) and is put aside in %s", path.name, wrong, aside)

    def _keep(self, specs: Sequence[JobSpec], keys: Mapping[str, str], error: Exception) -> list[Enqueued]:
        now = self._clock.now()
        try:
            with self._lock:
                self._write(_encode(Kept([_fixed(spec, now) for spec in specs], dict(keys))))
                is_first, self._waits = not self._waits, True
        except OSError as failure:
            raise error from failure
        if is_first:
            logger.warning("the store does not answer (%s); jobs are kept in %s until it does", error, self.folder)
        self._try_later()
        return [Enqueued(spec.id, True) for spec in specs]

    def _write(self, content: bytes) -> None:
        self._make_folder()
        path = self.folder / f"{ids.new()}{_SUFFIX}"
        draft = path.with_suffix(".part")
        with open(draft, "xb", opener=_private) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        sync_folder(self.folder)

    def _try_later(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                # The jobs are already kept: if no thread can be started now, the next call tries again.
                with suppress(StorageUnavailable):
                    self._thread = start_daemon("holdfast-spill", self._try_until_done)

    def _try_until_done(self) -> None:
        pause = threading.Event()
        while self._is_needed():
            pause.wait(_BETWEEN_TRIES)
            try:
                self.replay()
            except AWAY:
                continue
            except Exception:
                logger.exception("what is kept in %s could not be brought into the store", self.folder)

    def _is_needed(self) -> bool:
        with self._lock:
            if not self._waits:
                # Under the lock: the next caller that keeps a job starts a new thread.
                self._thread = None
            return self._waits

    def _make_folder(self) -> None:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(mode=_OWN_FOLDER, exist_ok=True)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock out other processes: two replays at once would change the order."""
        self._make_folder()
        with open(self.folder / ".lock", "ab", opener=_private) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _private(path: str, flags: int) -> int:
    """Open a file that only its owner may read: it has the arguments of jobs."""
    return os.open(path, flags, 0o600)


def _check_folder(folder: Path) -> None:
    """Refuse a folder that could not be written when it is needed; a missing one is created then."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise ConfigError(f"spill is {str(folder)!r}, but {there} is not a folder; give the path of a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(f"spill is {str(folder)!r}, but {there} is not writable; change its mode, or give another")


def _fixed(spec: JobSpec, now: int) -> JobSpec:
    """Return the job as it would be stored now: delays become instants, and its id is fixed."""
    return msgspec.structs.replace(
        spec,
        explicit_id=True,
        at=now + spec.delay if spec.at is None else spec.at,
        delay=0,
        deadline_at=now + spec.deadline if spec.deadline is not None else spec.deadline_at,
        deadline=None,
    )
