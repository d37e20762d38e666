"""What befalls the way to Postgres and the server itself: partitions of some or all, dead backends, crashes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tests.postgres_server import PostgresServer

from .nursery import ROOT
from .plan import Diary, Plan

_BREAKS = ("cut", "blackhole", "delay", "half-close", "commit")


class Proxy:
    """The lines to a server, as URLs, and orders to break one."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert process.stdout is not None
        ports: list[int] = json.loads(process.stdout.readline())
        self.urls = [f"postgresql://postgres@127.0.0.1:{port}/postgres" for port in ports]

    def order(self, how: str, line: int = -1, seconds: float = 0.0) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"line": line, "how": how, "seconds": seconds}) + "\n")
        self._process.stdin.flush()


@contextmanager
def proxy(server: PostgresServer, lines: int, seed: int) -> Iterator[Proxy]:
    socket = f"{conninfo_to_dict(server.dsn)['host']}/.s.PGSQL.5432"
    command = [sys.executable, "-m", "tests.chaos.storm.proxy", socket, str(lines), str(seed), str(os.getpid())]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    ) as process:
        try:
            yield Proxy(process)
        finally:
            process.kill()


class Outages:
    """As many as the plan says, spread over the storm. Called again and again with how far that is."""

    def __init__(self, server: PostgresServer, proxy: Proxy, plan: Plan, dice: Random, diary: Diary) -> None:
        self._server = server
        self._proxy = proxy
        self._plan = plan
        self._dice = dice
        self._diary = diary
        # None at the very ends, so that each meets a storm.
        kinds = {"restart": plan.restarts, "partition": plan.partitions, "termination": plan.terminations}
        when = [((n + dice.random()) / count, kind) for kind, count in kinds.items() for n in range(count)]
        self._ahead = sorted((0.05 + 0.9 * at, kind) for at, kind in when)

    def __call__(self, progress: float) -> bool:
        """Whether all have happened."""
        if self._ahead and progress >= self._ahead[0][0]:
            _, kind = self._ahead.pop(0)
            getattr(self, f"_{kind}")()
        return not self._ahead

    def heal(self) -> None:
        self._proxy.order("heal")

    def _restart(self) -> None:
        """A crash: nothing is written down, no session is told."""
        began = time.time()
        self._server.stop(signal.SIGQUIT)
        self._server.start()
        self._note("restart", "", began, time.time())

    def _partition(self) -> None:
        how = _BREAKS[self._diary.counts.get("partition", 0) % len(_BREAKS)]
        everybody = self._dice.random() < 0.2
        line = -1 if everybody else self._dice.randrange(self._plan.lines)
        seconds = self._dice.uniform(0.5, 2.0) * self._plan.lease if how in ("blackhole", "delay") else 0.0
        self._proxy.order(how, line, seconds)
        self._note("partition", f"{how} of line {line} for {seconds:.1f} s", time.time(), time.time() + seconds)

    def _termination(self) -> None:
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:
            rows = connection.execute("select pid from pg_stat_activity where application_name = 'holdfast'").fetchall()
            for (pid,) in self._dice.sample(rows, min(3, len(rows))):
                connection.execute("select pg_terminate_backend(%s)", [pid])
        self._diary.note("termination", len(rows))

    def _note(self, kind: str, what: str, began: float, ended: float) -> None:
        self._diary.note(kind, what)
        # Nobody judges of others before a lease has passed with the store up.
        self._diary.outages.append((began, ended + self._plan.lease))
