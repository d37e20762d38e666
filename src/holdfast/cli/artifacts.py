"""`holdfast jobs artifacts`: list and download artifacts of jobs."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from ..errors import InvalidInput
from ..model.artifacts import Artifact
from .command import EXIT_CODES, Command, echo, json_option, target_options
from .locate import find_app
from .output import instant, plain, print_json, print_table


@click.group(epilog=EXIT_CODES)
def artifacts() -> None:
    """List and download the files that jobs have stored.

    A job's result is its artifact `completion`.
    """


@artifacts.command("list", cls=Command)
@click.argument("job_id", metavar="ID")
@json_option
@target_options
def list_(job_id: str, app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """List the artifacts of a job, without their content."""
    found = find_app(app_name, store).artifacts.list(job_id)
    if as_json:
        print_json({"artifacts": [plain(artifact) for artifact in found]})
        return
    rows = [(a.name, a.content_type, a.size, instant(a.created_at, exact=False), a.sha256) for a in found]
    print_table(("name", "type", "bytes#", "created", "sha256"), rows, empty="no artifacts")


@artifacts.command(cls=Command)
@click.argument("job_id", metavar="ID")
@click.argument("name")
@click.option("--output", "-o", metavar="FILE", help="Output file; - is standard output. [default: -]")
@click.option("--start", type=click.IntRange(0), default=0, metavar="N", help="Skip this many bytes. [default: 0]")
@click.option("--length", type=click.IntRange(0), metavar="N", help="Write at most this many bytes.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@json_option
@target_options
def get(
    *,
    job_id: str,
    name: str,
    output: str | None,
    start: int,
    length: int | None,
    force: bool,
    app_name: str | None,
    store: str | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Download an artifact. With --json print its type, size and hash; write the content only with --output FILE."""
    app = find_app(app_name, store)
    found = app.artifacts.get(job_id, name)
    if as_json and output == "-":
        raise InvalidInput("--json and the content cannot both go to standard output; give a file with --output")
    if output not in (None, "-"):
        _save(app.artifacts.open(job_id, name, start=start, length=length), Path(str(output)), force=force)
    elif not as_json:
        _print(found, app.artifacts.open(job_id, name, start=start, length=length), asked=output == "-")
    if as_json:
        print_json(plain(found) | {"output": output})


def _save(pieces: Iterator[bytes], path: Path, *, force: bool) -> None:
    if path.exists() and not force:
        raise InvalidInput(f"{path} exists; choose another file, or add --force")
    # Written to a temporary file first: the file is complete or absent.
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("xb") as file:
            file.writelines(pieces)
        unfinished.replace(path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        unfinished.unlink(missing_ok=True)


def _print(artifact: Artifact, pieces: Iterator[bytes], *, asked: bool) -> None:
    kind = artifact.content_type
    readable = kind.startswith("text/") or kind.partition(";")[0].endswith(("json", "xml"))
    if sys.stdout.isatty() and not readable and not asked:
        raise InvalidInput(f"{artifact.name} is {kind}, which a terminal cannot show; use --output FILE, or --output -")
    if sys.stdout.isatty() and not asked:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        for piece in pieces:
            echo(decoder.decode(piece), nl=False)
        return
    stream = sys.stdout.buffer
    for piece in pieces:
        stream.write(piece)
    stream.flush()
