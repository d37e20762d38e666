"""`holdfast keys`: keys that sign the tokens of waitpoints. A secret is read from a file, and never shown."""

from __future__ import annotations

from typing import IO

import click

from .command import EXIT_CODES, Command, Duration, actor_option, for_people, json_option, reason_option, target_options
from .locate import find_app
from .output import instant, plain, print_json, print_table, say


@click.group(epilog=EXIT_CODES)
def keys() -> None:
    """List and rotate the keys that sign the tokens of waitpoints."""


@keys.command("list", cls=Command)
@json_option
@target_options
def list_(app_name: str | None, store: str | None, as_json: bool, debug: bool) -> None:
    """List the keys by fingerprint, without their secrets."""
    found = find_app(app_name, store).keys.list()
    if as_json:
        print_json({"keys": [plain(key) for key in found]})
        return
    rows = [
        (
            key.kid,
            key.state,
            instant(key.created_at, exact=False),
            instant(key.valid_until, exact=False),
            key.fingerprint,
        )
        for key in found
    ]
    print_table(("key", "state", "since", "verifies until", "fingerprint"), rows, empty="no keys yet")


@keys.command(cls=Command)
@click.argument("kid")
@click.option("--secret-file", type=click.File(), required=True, help="64 hexadecimal digits; - is standard input.")
@actor_option
@reason_option
@json_option
@target_options
def seed(
    kid: str, secret_file: IO[str], app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str
) -> None:
    """Create the first key of a store, from a secret shared with other systems."""
    made = find_app(app_name, store).keys.seed(kid, secret_file.read().strip(), **who)
    say({"kid": kid, "made": made}, f"key {kid} is active" if made else f"key {kid} already exists", as_json)


@keys.command(cls=Command)
@click.argument("kid", required=False)
@click.option("--secret-file", type=click.File(), help="64 hexadecimal digits; - is standard input. [default: random]")
@click.option(
    "--grace", type=Duration(), default="24h", show_default=True, help="Minimum time for which the old key stays valid."
)
@actor_option
@reason_option
@json_option
@target_options
def rotate(
    kid: str | None, secret_file: IO[str] | None, grace: float, app_name: str | None, store: str | None,
    as_json: bool, debug: bool, **who: str,
) -> None:  # fmt: skip
    """Rotate the signing key. Signatures of the old one stay valid until they expire."""
    secret = secret_file.read().strip() if secret_file is not None else None
    name = find_app(app_name, store).keys.rotate(kid, secret, grace=grace, **who)
    say({"kid": name}, f"key {name} is active; the previous key stays valid for at least {for_people(grace)}", as_json)


@keys.command(cls=Command)
@click.argument("kid")
@actor_option
@reason_option
@json_option
@target_options
def revoke(kid: str, app_name: str | None, store: str | None, as_json: bool, debug: bool, **who: str) -> None:
    """Revoke a retired key, so that its signatures are rejected."""
    find_app(app_name, store).keys.revoke(kid, **who)
    say({"kid": kid, "revoked": True}, f"key {kid} revoked", as_json)
