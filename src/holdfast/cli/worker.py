"""`holdfast worker`: run jobs until stopped."""

from __future__ import annotations

import functools
import logging
import sys
from typing import Any, Final, Literal

import click

from ..app import App
from ..config import Config
from ..errors import ConfigError
from ..names import check_queue
from ..runtime.opening import database_file
from .command import Command, target_options
from .locate import Host, current_host, find_app, find_project
from .logs import set_up_logs
from .ports import as_ports, ports_of, serve_metrics

logger: Final = logging.getLogger("holdfast.cli")

_LEVELS: Final = ("debug", "info", "warning", "error")


def _join(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> str | None:
    return ",".join(texts) if texts else None


_list_option: Final = functools.partial(click.option, multiple=True, callback=_join)
"""A comma-separated list; an option that is repeated adds to it."""


@click.command(cls=Command)
@click.argument("where", metavar="MODULE:APP", required=False)
@_list_option(
    "--queues", metavar="A,B", help="Queues to serve, in order of preference. [default: those of the app's tasks]"
)
@_list_option("--weights", metavar="A=3,B=1", help="Queues to serve, by weight.")
@_list_option("--capabilities", metavar="A,B", help="What this worker offers to jobs that require it, such as gpu.")
@_list_option("--resident", metavar="A,B", help="Affinities that are already loaded.")
@click.option("--residents", type=int, metavar="N", help="Number of affinities it can hold loaded. [default: 1]")
@click.option(
    "--affinity-wait",
    type=float,
    metavar="S",
    help="Maximum seconds that jobs of other affinities wait. [default: unlimited]",
)
@click.option("--concurrency", type=int, metavar="N", help="Concurrency per process. [default: 20]")
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=1,
    metavar="N",
    envvar="HOLDFAST_PROCESSES",
    help="Worker processes; with more than one, a supervisor restarts crashed workers. [default: 1]",
)
@click.option(
    "--lease",
    type=float,
    metavar="S",
    help="Seconds without a heartbeat until the worker is marked lost. [default: 30]",
)
@click.option("--grace", type=float, metavar="S", help="Seconds for running jobs to finish on shutdown. [default: 25]")
@click.option(
    "--metrics-port",
    callback=as_ports,
    metavar="PORT",
    envvar="HOLDFAST_METRICS_PORT",
    help="Serve Prometheus metrics on this loopback port; FIRST-LAST uses the first free one.",
)
@click.option("--name", metavar="TEXT", help="Name in lists and logs. [default: host and pid]")
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    envvar="HOLDFAST_LOG_FORMAT",
    help="Logs go to standard error. [default: text]",
)
@click.option(
    "--log-level", type=click.Choice(_LEVELS), default="info", envvar="HOLDFAST_LOG_LEVEL", help="[default: info]"
)
@target_options
def worker(
    *,
    where: str | None,
    app_name: str | None,
    store: str | None,
    queues: str | None,
    processes: int,
    metrics_port: range | None,
    log_format: Literal["text", "json"],
    log_level: str,
    debug: bool,
    **flags: Any,
) -> None:
    """Run jobs of MODULE:APP until stopped.

    SIGTERM or Ctrl-C stops it gracefully: it claims no more jobs, lets running ones finish within the grace period and
    releases the rest without using an attempt. A second signal releases them immediately. It waits for a store that
    is unavailable.

    \b
    Exit codes after which it should be restarted, as --processes does:
      70  the event loop was blocked for several leases
      71  an internal error stopped the worker; see the log
      75  too many threads hang in handlers that do not end
    """  # fmt: skip
    from ..runtime.running import run_worker, run_workers

    set_up_logs(log_format, log_level)
    name = where or app_name
    host = current_host()
    if name is None and host is None and find_project() is None:
        raise ConfigError(
            "which app? Give it, for example: holdfast worker shop.jobs:app (or set HOLDFAST_APP, or"
            " [tool.holdfast] app in pyproject.toml)"
        )
    app = find_app(name, store, adds=True, needs_tasks=True, say=logger.info)
    flags["queues"] = _queues(queues)
    config = app.settings(**flags)
    _warn(app, config)
    if processes == 1:
        if metrics_port is not None:
            serve_metrics(app, metrics_port)
        sys.exit(run_worker(app, config.worker))
    if metrics_port is not None:
        flags["metrics-port"] = ports_of(metrics_port, processes)
    argv = [*_command(name, flags, host), "--log-format", log_format, "--log-level", log_level, *(["--debug"] * debug)]
    sys.exit(run_workers(app, argv, processes, config.worker))


def _queues(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    if len(text.split()) > 1 and "," not in text:
        raise ConfigError(f"--queues is {text!r}; put a comma between queues: --queues {','.join(text.split())}")
    return tuple(dict.fromkeys(check_queue(part.strip()) for part in text.split(",")))


def _warn(app: App, config: Config) -> None:
    """Warn about options that are legal but probably a mistake."""
    used = {queue for task in app.tasks.values() for queue in task.queues}
    for queue in config.worker.queues:
        if queue not in used:
            logger.warning(
                "no task of this app uses queue %r; its tasks use %s", queue, ", ".join(sorted(used)) or "none"
            )
    if not app.tasks:
        logger.warning("this app has no tasks; import the modules that define them where the app is made")
    if config.inline:
        logger.warning("inline mode is on: this app's jobs run directly in the caller and never reach a worker")
    if "memory" in config.store and database_file(config) is None:
        logger.warning("the store is in memory: no other process can enqueue jobs for this worker")


def _command(name: str | None, flags: dict[str, Any], host: Host | None) -> list[str]:
    """Return the command line of one process under the supervisor; without a name it finds the project's app too."""
    program = (sys.executable, "-m", "holdfast") if host is None else host.program
    argv = [*program, "worker", *([name] if name and host is None else []), "--processes", "1"]
    for flag, value in flags.items():
        if value is not None:
            argv += [f"--{flag.replace('_', '-')}", ",".join(value) if isinstance(value, tuple) else str(value)]
    return argv
