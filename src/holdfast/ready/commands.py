"""`cmd.exec`: a command as a job. Its arguments are a list: no shell reads them."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from ..errors import InvalidInput
from ..rules.redaction import redact
from ..tasks.context import Context
from .program import Program

if TYPE_CHECKING:
    from ..app import App
    from ..tasks.task import AsyncTask

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# A command gets no other variables of the worker's environment, which may hold passwords.
_INHERITED: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR")
_SHOWN: Final = 256
_CHUNK: Final = 16 * 1024
_LARGEST_TAIL: Final = 16 * 1024
_HAS_PROC: Final = sys.platform == "linux"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A command that ended with 0."""

    output: str
    """The end of what it wrote to its standard output."""
    errors: str
    """The end of its standard error."""
    truncated: bool = False
    """True if it wrote more than is kept."""


class CommandFailed(Exception):
    """A command ended with an exit code other than 0, or by a signal. Retried like any failure."""

    def __init__(self, code: int, shown: str) -> None:
        self.code = code
        how = f"exit code {code}" if code >= 0 else f"killed by {_signal_name(-code)}"
        super().__init__(f"{how}: {shown}" if shown else how)


def command(
    app: App,
    *,
    name: str = "cmd.exec",
    programs: Collection[str] | None = None,
    root: str | os.PathLike[str] = ".",
    env: Mapping[str, str] | None = None,
    variables: Collection[str] | None = None,
    tail: int = _LARGEST_TAIL,
    stream: bool = False,
    grace: float = 2.0,
    **options: Any,
) -> AsyncTask[..., CommandResult]:
    """Register a task that runs a command: `run.enqueue(["convert", "a.png", "a.jpg"], cwd="images")`.

    `programs` are those that a job may name, all if left out: then anyone who can enqueue a job can run anything. The
    working directory lies in `root`. The command sees a few variables of the worker, those of `env`, and those that
    the job gives, if they are among `variables` (all, unless `programs` is given). With `stream`, its output becomes
    frames of the job's stream. It has 600 seconds unless `timeout` says otherwise. At its timeout, or if the job is
    cancelled or the worker dies, it is killed with all that it started.
    """
    if not 0 <= tail <= _LARGEST_TAIL:
        raise InvalidInput(f"tail is {tail}; use at most {_LARGEST_TAIL:,} bytes")
    terms = _Terms(programs, Path(root).resolve(), dict(env or {}), variables, tail, stream, grace)

    async def run(
        ctx: Context,
        argv: list[str],
        *,
        cwd: str = ".",
        env: dict[str, str] | None = None,
        stdin: str = "",
    ) -> CommandResult:
        terms.check(argv, env or {})
        with WorkingFolder(terms.root, cwd) as folder:
            program = Program(argv, cwd=folder.path, env=terms.surroundings(env or {}), keep_errors=True)
        return await _attend(program, ctx, stdin, terms)

    chosen: dict[str, Any] = {"name": name, "timeout": 600, "no_retry_on": (InvalidInput,), **options}
    task: AsyncTask[..., CommandResult] = app.task(**chosen)(run)
    return task


@dataclass(frozen=True, slots=True)
class _Terms:
    programs: Collection[str] | None
    root: Path
    env: dict[str, str]
    variables: Collection[str] | None
    tail: int
    stream: bool
    grace: float

    def check(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        if not argv or not argv[0]:
            raise InvalidInput("argv is empty; give the program and its arguments")
        if any("\0" in text for text in (*argv, *env.values())):
            raise InvalidInput("a NUL character cannot be passed to a program")
        if self.programs is not None and argv[0] not in self.programs:
            raise InvalidInput(f"{argv[0]!a} is not one of the programs that this task may run")
        allowed = self.variables if self.variables is not None or self.programs is None else ()
        for variable in env:
            if not _VARIABLE.fullmatch(variable) or (allowed is not None and variable not in allowed):
                raise InvalidInput(f"{variable!a} is not a variable that a job may set here")

    def surroundings(self, env: Mapping[str, str]) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        return {**inherited, **self.env, **env}


class _Tail:
    """Keeps the end of the output, and reports each piece as it comes."""

    def __init__(self, limit: int, tell: Callable[[str], Awaitable[None]] | None) -> None:
        self.kept = bytearray()
        self.truncated = False
        self._limit = limit
        self._tell = tell
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    async def follow(self, reader: asyncio.StreamReader) -> None:
        while chunk := await reader.read(_CHUNK):
            self.kept += chunk
            if (excess := len(self.kept) - self._limit) > 0:
                del self.kept[:excess]
                self.truncated = True
            if self._tell is not None and (text := self._decode(chunk)):
                await self._tell(text)

    def __str__(self) -> str:
        return self.kept.decode("utf-8", "replace")


async def _attend(program: Program, ctx: Context, stdin: str, terms: _Terms) -> CommandResult:
    def tell(kind: str) -> Callable[[str], Awaitable[None]] | None:
        return (lambda text: ctx.emit(text, kind=kind)) if terms.stream else None

    output, errors = _Tail(terms.tail, tell("stdout")), _Tail(terms.tail, tell("stderr"))
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(output.follow(await program.output()))
            group.create_task(errors.follow(await program.errors()))
            group.create_task(_feed(program, stdin))
        code = await asyncio.shield(program.ended)
    except BaseExceptionGroup as several:
        # Such as a full stream: the job's outcome depends on the error.
        raise several.exceptions[0] from None
    finally:
        try:
            await program.end(terms.grace)
        finally:
            program.close()
    if code != 0:
        raise CommandFailed(code, redact(str(errors).strip() or str(output).strip())[-_SHOWN:])
    return CommandResult(str(output), str(errors), output.truncated or errors.truncated)


async def _feed(program: Program, stdin: str) -> None:
    writer = await program.input()
    # A program need not read its input.
    with suppress(BrokenPipeError, ConnectionResetError):
        if stdin:
            writer.write(stdin.encode())
            await writer.drain()
    writer.close()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class WorkingFolder:
    """A working directory that lies within another, with all links resolved.

    Held open from the check to the use, so that it cannot be replaced by a link in between. `path` names what was
    checked, to this process and to one that it starts.
    """

    def __init__(self, root: Path, within: str) -> None:
        if "\0" in within:
            raise InvalidInput("the working directory has a NUL character in its name")
        wanted = root / within
        try:
            self._handle = os.open(wanted, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise InvalidInput(f"the working directory {within!a} cannot be used: {error.strerror}") from None
        found = _path_of(self._handle, wanted)
        if not found.is_relative_to(root):
            os.close(self._handle)
            raise InvalidInput(f"the working directory {within!a} does not lie within that of the task")
        # A program changes to it before it closes our handles.
        self.path = f"/proc/self/fd/{self._handle}" if _HAS_PROC else str(found)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        os.close(self._handle)


def _path_of(handle: int, wanted: Path) -> Path:
    """Return the real path of an open directory."""
    if _HAS_PROC:
        return Path(os.readlink(f"/proc/self/fd/{handle}"))
    return wanted.resolve()
