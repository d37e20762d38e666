"""`holdfast serve`: the HTTP API and the dashboard."""

from __future__ import annotations

import click

from ..errors import MissingExtra
from .command import Command, echo, target_options
from .locate import find_app, is_named


@click.command(cls=Command)
@click.argument("where", metavar="MODULE:APP", required=False)
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Address to listen on. [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), default=8787, metavar="PORT", help="[default: 8787]")
@click.option(
    "--auth",
    type=click.Choice(["required", "off"]),
    help="Whether callers need a token. [default: not on loopback, otherwise required]",
)
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="An allowed host name; repeatable.")
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="An origin whose pages may call the API, such as https://app.example.com; repeatable. [default: none]",
)
@click.option(
    "--cert", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="TLS certificate, for HTTPS."
)
@click.option(
    "--key", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="Private key of the certificate."
)
@click.option("--behind-proxy", is_flag=True, help="A trusted proxy terminates HTTPS and forwards client addresses.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0),
    default=1_000.0,
    metavar="NUMBER",
    help="Requests per second that each token or session may send; 0 for no limit. [default: 1000]",
)
@click.option(
    "--chores/--no-chores",
    default=True,
    help="Also rescue jobs, run schedules, delete old data and deliver webhooks. [default: yes]",
)
@target_options
def serve(  # noqa: PLR0917 - click gives them by name
    where: str | None,
    host: str,
    port: int,
    auth: str | None,
    hosts: tuple[str, ...],
    origins: tuple[str, ...],
    cert: str | None,
    key: str | None,
    behind_proxy: bool,
    rate: float,
    chores: bool,
    app_name: str | None,
    store: str | None,
    debug: bool,
) -> None:
    """Serve the HTTP API and the dashboard until stopped."""
    try:
        from ..web import serving
    except ModuleNotFoundError as missing:
        if not MissingExtra.explains(missing, "web"):
            raise
        raise MissingExtra("holdfast serve", missing, "web") from missing
    named = where or app_name
    app = find_app(named, store, adds=True)
    settings = serving.settings_for(
        host,
        auth=auth,  # type: ignore[arg-type]
        hosts=hosts,
        origins=origins,
        behind_proxy=behind_proxy,
        any_task=not is_named(named, store),
        encrypted=cert is not None,
        rate=rate,
    )
    serving.serve(app, settings, host, port, behind_proxy=behind_proxy, chores=chores, cert=cert, key=key, ready=_say)


def _say(address: str, auth: str) -> None:
    echo(f"Holdfast on {address}" + ("" if auth == "required" else " (this machine only, no token needed)"))
