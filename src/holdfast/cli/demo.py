"""`holdfast demo`: a demonstration on a temporary file or a given store."""

from __future__ import annotations

import json
import shutil
import tempfile
from importlib import import_module
from pathlib import Path

import click

from .command import FAILED, OK, Command, echo, json_option
from .locate import use_store
from .output import console_for
from .serve import serve as serve_command


@click.command(cls=Command)
@click.option(
    "--store", metavar="URL", help="Run on this store instead of a temporary SQLite file; its jobs are kept there."
)
@click.option("--keep", is_flag=True, help="Keep the folder with the file and the workers' logs.")
@click.option("--serve", is_flag=True, help="Then show the jobs on the dashboard, until interrupted.")
@click.option("--port", type=click.IntRange(0, 65535), default=8787, help="Port of the dashboard. [default: 8787]")
@json_option
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def demo(ctx: click.Context, store: str | None, keep: bool, serve: bool, port: int, as_json: bool, debug: bool) -> None:
    """Run 2,000 jobs with two workers, and kill one of them.

    A hundred jobs fail once and are retried, one fails for good, and those of the killed worker are rescued by the
    other. The demo then checks that every job is accounted for, and ends with code 1 and a list of what is wrong if
    not. --store brings that store's schema up to date.
    """
    if serve:
        import_module("holdfast.web")  # raises at once if the extra is missing
    folder = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    use_store(store or str(folder / "demo.db"))
    console = console_for(stderr=as_json)
    # Not before the store is known: its app reads it when it is made.
    from . import demo_run

    try:
        with demo_run.Demo(folder, console.print) as run:
            report = run.play()
            if as_json:
                echo(json.dumps(report))
            if serve:
                ctx.invoke(serve_command, where=demo_run.APP, port=port)
    finally:
        if keep:
            console.print(f"the file and the logs are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    raise SystemExit(FAILED if report["faults"] else OK)
