"""The location of a database, from what a user writes, and whether that place can keep Holdfast's guarantees."""

from __future__ import annotations

import logging
import os
import re
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from ...errors import ConfigError, StorageReadOnly, StorageUnavailable

_NETWORK: Final = re.compile(r"^(nfs\d?|cifs|smb\w*|9p|vboxsf|afs|ceph|glusterfs|lustre|ncpfs|fuse\..+)$")
# Local, though served by a user's process: the root of rootless containers.
_LOCAL_FUSE: Final = frozenset({"fuse.fuse-overlayfs", "fuse.overlayfs"})

_log = logging.getLogger("holdfast.storage")


@dataclass(frozen=True, slots=True)
class Location:
    """A database file, or one in memory. `uri` is what sqlite3.connect gets."""

    uri: str
    path: str | None = None
    read_only: bool = False

    @property
    def memory(self) -> bool:
        return self.path is None


def locate(where: str | os.PathLike[str]) -> Location:
    """Parse a path, a `sqlite:` URL, a `file:` URI or one of the forms of `:memory:`."""
    text = os.fspath(where)
    is_url = text.startswith("sqlite:")
    if is_url:
        text = _from_url(text)
    if not text.strip() or "\0" in text:
        raise ConfigError("the database needs a path; for one in memory write ':memory:'")
    if text == ":memory:":
        return _private_memory()
    if text.startswith("file:"):
        return _from_uri(text)
    if "?" in text and not is_url and not os.path.exists(text):
        name = text.replace("?", "%3F")
        raise ConfigError(f"{text!r} has a ?, and a path takes no options; for a file of that name write 'file:{name}'")
    return _at(text)


def inspect(location: Location, *, allow_unsafe_fs: bool) -> None:
    """Refuse a place where SQLite's guarantees fail. Opens nothing: opening and closing the file by other means
    than SQLite would drop the locks that this process holds on it."""
    if location.path is None:
        return
    if location.read_only:
        raise StorageReadOnly(f"{location.path} was opened with mode=ro; a queue needs to write", backend="sqlite")
    _check_directory(os.path.dirname(location.path))
    if not allow_unsafe_fs:
        _check_filesystem(location.path)
    try:
        status = os.stat(location.path)
    except FileNotFoundError:
        return
    except OSError as error:
        place = f"{error.strerror}: {location.path[:200]}"
        raise StorageUnavailable(f"{place}; choose another path", backend="sqlite") from error
    _check_file(location.path, status)
    _check_log(location.path)


def log_of(path: str) -> tuple[str, str]:
    """Return the paths of a database's write-ahead log, and of the log's index."""
    return f"{path}-wal", f"{path}-shm"


def lacks_log(path: str) -> bool:
    """Return whether the index of a log is there without the log. SQLite makes it later, and removes it earlier."""
    log, index = log_of(path)
    # Twice: other processes may remove both between two looks, and make them again.
    return all(os.path.exists(index) and not os.path.exists(log) for _ in range(2))


def filesystem_of(path: str, mountinfo: str) -> str:
    """Return the type of the file system that holds `path`, from the text of /proc/self/mountinfo; "" if unknown."""
    best, kind = "", ""
    for line in mountinfo.splitlines():
        left, separator, right = line.partition(" - ")
        fields = left.split()
        if not separator or len(fields) < 5:
            continue
        mount = re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), fields[4])
        if len(mount) >= len(best) and (path == mount or path.startswith(mount.rstrip("/") + "/")):
            best, kind = mount, right.split()[0]
    return kind


def is_network(filesystem: str) -> bool:
    """Return whether its locks or shared memory cannot be trusted."""
    return bool(_NETWORK.match(filesystem)) and filesystem not in _LOCAL_FUSE


def _from_url(url: str) -> str:
    rest = url.removeprefix("sqlite:")
    if not rest.startswith("//"):
        raise ConfigError(f"{url!r} is not a database URL; write sqlite:///relative.db or sqlite:////absolute.db")
    host, slash, path = rest[2:].partition("/")
    if host:
        raise ConfigError(f"{url!r} names a host; write sqlite:///relative.db or sqlite:////absolute.db")
    if "?" in path or "#" in path:
        raise ConfigError(f"{url!r} has options, which a store's URL does not take; write ? as %3F in a file's name")
    if slash and not path:
        raise ConfigError(f"{url!r} names no file; write sqlite:///relative.db, or :memory: for one in memory")
    return unquote(path) if path else ":memory:"


def _from_uri(uri: str) -> Location:
    name, _, query = uri.removeprefix("file:").partition("#")[0].partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    options = dict(pairs)
    # Whole pairs only: a file may well be called mode=memory.
    if name == ":memory:" or ("mode", "memory") in pairs or ("vfs", "memdb") in pairs:
        shared = options.get("cache") == "shared" or "vfs" in options
        return Location(f"file:{name}?{urlencode(pairs)}") if shared else _private_memory()
    if unknown := set(options) - {"mode", "cache"}:
        raise ConfigError(f"{uri!r} has options Holdfast does not support: {sorted(unknown)}; leave them out")
    path = unquote(re.sub(r"^//(localhost)?(?=/)", "", name))
    return _at(path, read_only=options.get("mode") == "ro")


def _private_memory() -> Location:
    # Named, so that connections made for the user see the same database. The memdb VFS locks like a file, while a
    # shared cache would fail our reads as soon as the user's connection has written.
    return Location(f"file:/holdfast-{secrets.token_hex(8)}?vfs=memdb")


def _at(text: str, *, read_only: bool = False) -> Location:
    try:
        path = os.path.realpath(text)
        return Location(f"file:{quote(path)}", path, read_only)
    except UnicodeEncodeError:
        raise ConfigError(f"{text!a} is not a path: it holds a lone surrogate") from None


def _check_directory(directory: str) -> None:
    if not os.path.isdir(directory):
        raise StorageUnavailable(f"there is no directory {directory}; create it", backend="sqlite")
    if not os.access(directory, os.W_OK | os.X_OK):
        raise StorageReadOnly(f"{directory} is not writable; SQLite keeps its log beside the file", backend="sqlite")


def _check_filesystem(path: str) -> None:
    try:
        kind = filesystem_of(path, Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape"))
    except OSError:
        return  # not Linux
    if is_network(kind):
        raise ConfigError(
            f"{path} is on {kind}, where SQLite's locks fail and data is lost;"
            " use a local disk or Postgres (allow_unsafe_fs=True overrides this)"
        )
    if kind == "virtiofs":
        _log.warning("%s is on virtiofs: SQLite is safe there only if no process on the host opens the file", path)


def _check_log(path: str) -> None:
    """Refuse to begin a log beside a deleted one that may be in use: both sides would write over each other."""
    log, index = log_of(path)
    if lacks_log(path):
        raise StorageUnavailable(
            f"{log} was deleted, and {index} is there, so a program may still use them; stop all programs that use"
            f" {path}, delete {index}, and check what is there with: holdfast db verify",
            backend="sqlite",
        )


def _check_file(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"{path} is not a regular file; name a file for the database")
    if status.st_nlink > 1:
        raise ConfigError(f"{path} has {status.st_nlink} hard links, whose logs would differ; copy it to its own file")
    if not os.access(path, os.R_OK | os.W_OK):
        raise StorageReadOnly(f"{path} is not writable; change its mode or owner", backend="sqlite")
