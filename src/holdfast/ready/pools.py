"""Pools of child processes: a program that answers jobs line by line, so that it loads its data only once.

A job is one line of JSON, `{"id": …, "attempt": …, "payload": …}`, and its answer another:
`{"id": …, "status": "ok", "result": …}`, `{"status": "error", "error": …, "permanent": …}` or
`{"status": "throttled", "after": …}`. A child that answers anything else is ended; the next job starts another.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..errors import InvalidInput
from ..outbound.client import PerLoop
from ..outcomes import Fail, Throttle
from ..tasks.context import Context
from ..values.codec import encode
from .program import Program

if TYPE_CHECKING:
    from ..app import App
    from ..tasks.task import AsyncTask

_GRACE: Final = 1.0


class ChildFailed(Exception):
    """A child of a pool ended, answered wrongly, or answered that the job failed."""


def pool(
    app: App,
    name: str,
    argv: Sequence[str],
    *,
    cwd: str | os.PathLike[str] = ".",
    env: Mapping[str, str] | None = None,
    keep: int = 64,
    **options: Any,
) -> AsyncTask[..., Any]:
    """Register a task whose jobs your program answers: `embed.enqueue({"text": "…"})`.

    Each running job has its own child, and at most `keep` idle ones wait for the next job. A child has the worker's
    variables and those of `env`. A job has 600 seconds unless `timeout` says otherwise; at its timeout, or if it is
    cancelled, its child is killed.
    """
    if isinstance(argv, str) or not argv or any("\0" in text for text in argv):
        raise InvalidInput("argv is a list: the program and its arguments")
    crew = PerLoop(lambda: _Crew(list(argv), os.path.abspath(cwd), dict(env or {}), keep), _Crew.aclose)

    async def run(ctx: Context, payload: Any = None) -> Any:
        line = encode({"id": ctx.id, "attempt": ctx.attempt, "payload": payload}, what="the job")
        mates = await crew.get()
        child = mates.take()
        try:
            answer = await child.ask(line, ctx.id)
        except BaseException:
            mates.lose(child)
            raise
        mates.back(child)
        return _judged(answer)

    chosen: dict[str, Any] = {"name": name, "timeout": 600, **options}
    task: AsyncTask[..., Any] = app.task(**chosen)(run)
    return task


class _Child:
    """One program, and its pipes once they are open."""

    def __init__(self, argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> None:
        self.program: Final = Program(argv, cwd=cwd, env={**os.environ, **env}, keep_errors=False)
        self._pipes: tuple[asyncio.StreamWriter, asyncio.StreamReader] | None = None

    async def ask(self, line: str, job_id: str) -> dict[str, Any]:
        if self._pipes is None:
            self._pipes = await self.program.input(), await self.program.output()
        writer, reader = self._pipes
        try:
            writer.write(line.encode() + b"\n")
            await writer.drain()
            said = await reader.readline()
        except (ConnectionError, BrokenPipeError):
            said = b""
        except ValueError:
            raise ChildFailed("the child answered with a line of more than 1 MiB") from None
        if not said.endswith(b"\n"):
            raise ChildFailed(f"the child ended before its answer ({await self._fate()})")
        return _answer(said, job_id)

    async def _fate(self) -> str:
        await asyncio.wait({self.program.ended}, timeout=_GRACE)
        return f"return code {self.program.ended.result()}" if self.program.ended.done() else "it closed its output"


class _Crew:
    """The idle children of one event loop, the last used first."""

    def __init__(self, argv: list[str], cwd: str, env: dict[str, str], keep: int) -> None:
        self._argv, self._cwd, self._env, self._keep = argv, cwd, env, keep
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()

    def take(self) -> _Child:
        while self._idle:
            child = self._idle.pop()
            if not child.program.ended.done():
                return child
            self.lose(child)
        child = _Child(self._argv, self._cwd, self._env)
        self._all.add(child)
        return child

    def back(self, child: _Child) -> None:
        if len(self._idle) < self._keep and not child.program.ended.done():
            self._idle.append(child)
        else:
            self.lose(child)

    def lose(self, child: _Child) -> None:
        self._all.discard(child)
        child.program.kill()
        child.program.close()

    async def aclose(self) -> None:
        children, self._all, self._idle = self._all, set[_Child](), []
        await asyncio.gather(*(child.program.end(_GRACE) for child in children))
        for child in children:
            child.program.close()


def _answer(line: bytes, job_id: str) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        raise ChildFailed("the child's answer is not valid JSON") from None
    if not isinstance(answer, dict) or answer.get("id") != job_id:
        raise ChildFailed("the child answered for another job")
    if answer.get("status") not in ("ok", "error", "throttled"):
        raise ChildFailed("the child answered with a status that is none of ok, error, throttled")
    return answer


def _judged(answer: dict[str, Any]) -> Any:
    match answer["status"]:
        case "ok":
            return answer.get("result")
        case "throttled":
            raise Throttle(str(answer.get("error", "throttled")), after=_seconds(answer.get("after")))
        case _:
            message = str(answer.get("error", "the child gave no reason"))
            raise Fail(message) if answer.get("permanent") is True else ChildFailed(message)


def _seconds(said: object) -> float:
    """Return a number of seconds up to a day; a minute if the child gave anything else."""
    if isinstance(said, (int, float)) and not isinstance(said, bool) and 0 <= said <= 86_400:
        return float(said)
    return 60.0
