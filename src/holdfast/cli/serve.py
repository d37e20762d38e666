"""`holdfast serve`: the HTTP API and the dashboard."""

from __future__ import annotations

import click

from ..errors import MissingExtra
from .command import Command, target_options
from .locate import find_app, is_named


@click.command(cls=Command)
@click.argument("where", metavar="MODULE:APP", required=False)
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Where to listen. [default: 127.0.0.1]")
@click.option("--port", type=click.IntRange(0, 65535), default=8787, metavar="PORT", help="[default: 8787]")
@click.option(
    "--auth",
    type=click.Choice(["required", "off"]),
    help="Whether callers need a token. [default: off on loopback under its own name, else required]",
)
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME", help="A name under which the site is called; repeatable."
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="A site whose pages may call the API, such as https://app.example.com; repeatable. [default: none]",
)
@click.option(
    "--cert", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="Its certificate, for HTTPS."
)
@click.option("--key", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="The key of the certificate.")
@click.option("--behind-proxy", is_flag=True, help="A proxy before it speaks HTTPS and says who calls.")
@click.option(
    "--chores/--no-chores",
    default=True,
    help="Whether it also rescues jobs, fires schedules, prunes and delivers webhooks. [default: it does]",
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
    chores: bool,
    app_name: str | None,
    store: str | None,
    debug: bool,
) -> None:
    """Serve the HTTP API and the dashboard until told to stop."""
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
    )
    serving.serve(app, settings, host, port, behind_proxy=behind_proxy, chores=chores, cert=cert, key=key, ready=_say)


def _say(address: str, auth: str) -> None:
    click.echo(f"Holdfast on {address}" + ("" if auth == "required" else " (for this machine only, without tokens)"))
