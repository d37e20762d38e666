"""`holdfast tokens`: access tokens of the HTTP API. A secret is printed once, when its token is created."""

from __future__ import annotations

from typing import Any

import click

from ..client.access import Access
from ..model.access import ROLES, SCOPES, Token
from .command import EXIT_CODES, Command, Duration, actor_option, echo, json_option, reason_option, target_options
from .locate import find_app
from .output import instant, plain, print_json, print_table, say


def _names(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names in comma-separated texts."""
    return tuple(name for text in texts for part in text.split(",") if (name := part.strip()))


@click.group(epilog=EXIT_CODES)
def tokens() -> None:
    """Create, list and revoke access tokens."""


@tokens.command(cls=Command)
@click.argument("name")
@click.option("--role", type=click.Choice(list(ROLES)), help="Role of the token.")
@click.option("--scope", "scopes", type=click.Choice(SCOPES), multiple=True, help="Scope of the token; repeatable.")
@click.option("--tenant", metavar="NAME", help="Restrict it to this tenant. [default: the whole store]")
@click.option("--expires", type=Duration(), help="Time until it expires, such as 30d. [default: never]")
@click.option(
    "--queues",
    metavar="A,B",
    multiple=True,
    callback=_names,
    help="Restrict it to jobs of these queues. [default: all]",
)
@click.option(
    "--tasks", metavar="A,B", multiple=True, callback=_names, help="Restrict it to jobs of these tasks. [default: all]"
)
@actor_option
@reason_option
@json_option
@target_options
def create(
    name: str,
    scopes: tuple[str, ...],
    app_name: str | None,
    store: str | None,
    as_json: bool,
    debug: bool,
    **what: Any,
) -> None:
    """Create a token and print its secret, once."""
    made = find_app(app_name, store).tokens.create(name, scopes=scopes or None, **what)
    if as_json:
        print_json(plain(made))
        return
    until = instant(made.expires_at, exact=False)
    # On standard error; the secret alone is on standard output: `TOKEN=$(holdfast tokens create …)`.
    echo(f"token {name}: {_permissions(made)}; expires {until or 'never'}", err=True)
    echo("its secret, which is not shown again:", err=True)
    echo(made.secret)


@tokens.command("list", cls=Command)
@json_option
@target_options
def list_(app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """List the tokens, without their secrets."""
    found = _all(find_app(app_name, store).tokens)
    if as_json:
        print_json({"tokens": [plain(token) for token in found]})
        return
    rows = [
        (
            token.id,
            token.name,
            token.state,
            _permissions(token),
            token.tenant,
            instant(token.created_at, exact=False),
            instant(token.expires_at, exact=False),
            instant(token.last_used_at, exact=False),
        )
        for token in found
    ]
    columns = ("id", "name", "state", "role…", "tenant", "since", "until", "last used")
    print_table(columns, rows, empty="no tokens yet; create one: holdfast tokens create NAME --role viewer")


@tokens.command(cls=Command)
@click.argument("token")
@actor_option
@reason_option
@json_option
@target_options
def revoke(token: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str) -> None:
    """Revoke a token by id or name, and its sessions."""
    revoked = find_app(app_name, store).tokens.revoke(token, **who)
    say({"revoked": revoked}, f"token {token} revoked" if revoked else "the token was already revoked", as_json)


def _all(access: Access) -> list[Token]:
    found: list[Token] = []
    while page := access.list(after=found[-1] if found else None, limit=1_000):
        found += page
    return found


def _permissions(token: Token) -> str:
    scopes = token.role or ", ".join(token.scopes)
    queues = f"; queues {', '.join(token.queues)}" if token.queues else ""
    return scopes + queues + (f"; tasks {', '.join(token.tasks)}" if token.tasks else "")
