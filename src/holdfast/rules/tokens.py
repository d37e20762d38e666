"""Tokens that let their holder send one signal: signed claims, `v1.<kid>.<claims>.<mac>`.

The version fixes the algorithm, HMAC-SHA256 under a key derived for the purpose and the tenant; nothing in a token
chooses it. A token that is no good takes the way of a good one to the end: what is wrong with it shows neither in the
answer nor in the time.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Final

import msgspec

from ..errors import InvalidInput
from . import base64url

LONGEST: Final = 1024
"""Bytes of a token."""
SECRET_BYTES: Final = 32
_VERSION: Final = "v1"
_PURPOSE: Final = b"sig-v1"
_KID: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
# For keys that do not exist. Nobody knows it, so nothing was ever signed with it.
_NOBODYS: Final = secrets.token_bytes(SECRET_BYTES)


class Claims(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The contents of a token."""

    tenant: str
    job: str
    generation: int
    signal: str
    exp: int
    """Microseconds since 1970."""
    jti: str
    """The id of its waitpoint."""
    once: bool


@dataclass(frozen=True, slots=True)
class Parsed:
    """A token taken apart. Nothing in it is true before `is_signed` has said so."""

    kid: str
    claims: Claims
    signed: bytes
    mac: bytes
    is_whole: bool
    """False for a stand-in, which never verifies."""


_STAND_IN: Final = Parsed("-", Claims("", "-", 0, "-", 0, "-", True), b"-", bytes(32), is_whole=False)


def sign(secret: bytes, kid: str, claims: Claims) -> str:
    """The token for these claims: the same each time."""
    text = f"{_VERSION}.{kid}.{base64url.encode(msgspec.json.encode(claims))}"
    token = f"{text}.{base64url.encode(_mac(secret, claims.tenant, text.encode()))}"
    if len(token) > LONGEST:
        raise InvalidInput(f"the token would take {len(token):,} bytes of {LONGEST:,}; shorten the waitpoint's name")
    return token


def parse(token: str) -> Parsed:
    """Take a token apart, or give a stand-in that costs as much to check and fails."""
    try:
        return _parse(token)
    except (ValueError, msgspec.MsgspecError, RecursionError):
        return _STAND_IN


def is_signed(parsed: Parsed, secret: bytes | None) -> bool:
    """Return whether the key with this secret signed it; a secret of None stands for an unknown key."""
    mac = _mac(secret or _NOBODYS, parsed.claims.tenant, parsed.signed)
    # `&`, not `and`: each part is always looked at.
    return bool(hmac.compare_digest(mac, parsed.mac) & (secret is not None) & parsed.is_whole)


def looks_like_token(text: str) -> bool:
    """Return whether a text has the form of a token, valid or not."""
    return text.startswith(_VERSION + ".")


def check_kid(kid: object) -> str:
    """The name of a key, as it stands in tokens."""
    if not isinstance(kid, str) or not _KID.fullmatch(kid):
        raise InvalidInput(f"a key's name is 1 to 32 letters, digits, - and _, not {kid!r}")
    return kid


def check_secret(secret: object) -> str:
    """A key's secret as it is stored: 64 hexadecimal digits, in lower case."""
    try:
        raw = bytes.fromhex(secret) if isinstance(secret, str) else b""
    except ValueError:
        raw = b""
    if len(raw) != SECRET_BYTES:
        raise InvalidInput("a key's secret is 64 hexadecimal digits, such as `openssl rand -hex 32` prints")
    return raw.hex()


def _parse(token: str) -> Parsed:
    if len(token) > LONGEST or not token.isascii():
        raise ValueError
    version, kid, claims, mac = token.split(".")
    if version != _VERSION or not _KID.fullmatch(kid):
        raise ValueError
    signed = token[: -len(mac) - 1].encode()
    found = msgspec.json.decode(base64url.decode(claims), type=Claims)
    parsed = Parsed(kid, found, signed, base64url.decode(mac), is_whole=True)
    if len(parsed.mac) != hashlib.sha256().digest_size:
        raise ValueError
    return parsed


def _mac(secret: bytes, tenant: str, signed: bytes) -> bytes:
    return hmac.digest(_derived(secret, tenant), _PURPOSE + signed, "sha256")


def _derived(secret: bytes, tenant: str) -> bytes:
    """HKDF of one block: a key of its own for this purpose and this tenant."""
    extracted = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(extracted, b"holdfast signal " + tenant.encode("utf-8", "surrogatepass") + b"\x01", "sha256")
