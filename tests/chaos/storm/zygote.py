"""A process that has imported everything and opened nothing, and forks workers and producers when asked to.

A worker started afresh takes half a second of a core before it works; a forked one a twentieth. Orders come as lines of
JSON; so does the word that one was forked, or has ended.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import select
import signal
import sys
from typing import Any

import holdfast
import holdfast.storage.postgres
import holdfast.storage.sqlite
from holdfast.runtime.running import run_worker
from holdfast.worker import registration
from holdfast.worker.processes.parent import die_with_parent
from holdfast.worker.settings import WorkerSettings
from tests.chaos.storm.producer import Producer


def serve(app: holdfast.App) -> int:
    """Until whoever gives orders is gone. Nobody that was forked here outlives it."""
    wake, told = os.pipe()
    os.set_blocking(told, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(told)
    gc.collect()
    gc.freeze()
    tell({"ready": os.getpid()})
    pending = b""
    while True:
        readable, _, _ = select.select([0, wake], [], [])
        if wake in readable:
            os.read(wake, 4096)
            bury()
        if 0 in readable:
            got = os.read(0, 65536)
            if not got:
                return 0
            *orders, pending = (pending + got).split(b"\n")
            for order in orders:
                tell({"forked": fork(app, json.loads(order))})


def bury() -> None:
    """Say who has ended, and how."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        tell({"ended": pid, "code": os.waitstatus_to_exitcode(status)})


def tell(what: dict[str, Any]) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


def fork(app: holdfast.App, order: dict[str, Any]) -> int:
    parent = os.getpid()
    if pid := os.fork():
        return pid
    code = 1
    try:
        become_a_child(parent, order["log"])
        code = live(app, order)
    except BaseException:
        logging.exception("%s has failed", order["name"])
    finally:
        logging.shutdown()
        os._exit(code)


def become_a_child(parent: int, log: str) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # A worker that is stopped before it has begun leaves in order too; it replaces this with its own.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    die_with_parent(parent, signal.SIGKILL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # For every thread of it a whole line at once, and nothing kept back that a kill would take along.
    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), 1)
    os.dup2(1, 2)
    logging.basicConfig(
        level=logging.WARNING,
        stream=sys.stderr,
        format=f"%(asctime)s.%(msecs)03d {os.getpid()} %(levelname)s %(message)s",
        datefmt="%H:%M:%S",
    )


def live(app: holdfast.App, order: dict[str, Any]) -> int:
    if not order.get("known", True):
        # As on another machine: nobody can see that its process is gone, only its lease tells.
        registration.process_key = lambda: ""
    with app.override_store(order["store"]):
        if order["do"] == "produce":
            Producer(app, order["seed"]).run(order["jobs"])
            return 0
        settings = WorkerSettings(name=order["name"], **order["settings"])
        return run_worker(app, settings)
