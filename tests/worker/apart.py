"""Stands in for a module of tasks: objects that a child process imports and runs."""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.worker.processes.child import ChildControl


class Runs:
    """A stand-in for a task, around a plain function."""

    def __init__(self, fn: Callable[[dict[str, Any], str, ChildControl], Any]) -> None:
        self.run_in_child = fn


def done(result: object) -> dict[str, Any]:
    return {"kind": "done", "result": str(result)}


@Runs
def echo(header: dict[str, Any], payload: str, control: ChildControl) -> Any:
    return done(f"{header['id']} {payload}")


@Runs
def pid(header: dict[str, Any], payload: str, control: ChildControl) -> Any:
    return done(os.getpid())


@Runs
def surroundings(header: dict[str, Any], payload: str, control: ChildControl) -> Any:
    found: dict[str, Any] = {"path": sys.path, "cwd": os.getcwd(), "pythonpath": os.environ.get("PYTHONPATH")}
    return {**found, "main": threading.current_thread() is threading.main_thread()}


@Runs
def fail(header: dict[str, Any], payload: str, control: ChildControl) -> Any:
    raise LookupError(f"no {payload} \udcff")


@Runs
def leave(header: dict[str, Any], payload: str, control: ChildControl) -> Any:
    raise SystemExit(3)


@Runs
def unspeakable(header: dict[str, Any], payload: str, control: ChildControl) -> Any:
    return {"kind": "done", "result": object()}


@Runs
def exit_hard(header: dict[str, Any], payload: str, control: ChildControl) -> Any:
    os._exit(7)


@Runs
def crash(header: dict[str, Any], payload: str, control: ChildControl) -> Any:
    ctypes.string_at(0)


@Runs
def hang_up(header: dict[str, Any], payload: str, control: ChildControl) -> Any:
    os.closerange(3, 4096)
    return done("")


@Runs
def babble(header: dict[str, Any], payload: str, control: ChildControl) -> Any:
    os.write(int(sys.argv[1]), b"\x00\x00\x00\x02{}")
    threading.Event().wait()


@Runs
def say(header: dict[str, Any], payload: str, control: ChildControl) -> Any:
    print(f"out {payload}")
    print(f"err {payload}", file=sys.stderr)
    return done("")


@Runs
def wait_for_cancel(header: dict[str, Any], payload: str, control: ChildControl) -> Any:
    tell(header, "begun")
    return done(f"cancelled {control.wait_cancelled(30)} {control.cancelled}")


@Runs
def hang(header: dict[str, Any], payload: str, control: ChildControl) -> Any:
    tell(header, str(os.getpid()))
    threading.Event().wait()


@Runs
def hang_in_c(header: dict[str, Any], payload: str, control: ChildControl) -> Any:
    """Holds the interpreter's lock: no thread of this child can notice anything any more."""
    tell(header, str(os.getpid()))
    ctypes.PyDLL(None).sleep(600)


@Runs
def hang_with_a_program(header: dict[str, Any], payload: str, control: ChildControl) -> Any:
    started = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    tell(header, f"{os.getpid()} {started.pid}")
    threading.Event().wait()


async def _napping(header: dict[str, Any], payload: str, control: ChildControl) -> Any:
    if payload == "short":
        await asyncio.sleep(0)
        return done("rested")
    tell(header, "begun")
    return await asyncio.Event().wait()


nap = Runs(_napping)
not_a_task = echo.run_in_child


def tell(header: dict[str, Any], text: str) -> None:
    """A word to the test, through the named pipe in the header."""
    Path(header["pipe"]).write_text(text)
