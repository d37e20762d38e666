"""Decide when a wait is over, and when it can no longer be met."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, get_args

import msgspec

from ..errors import InvalidInput
from ..model.signals import Condition, Distinct, OnTimeout, Received
from . import base64url

_ON_TIMEOUT: Final = get_args(OnTimeout)
_DISTINCT: Final = get_args(Distinct)


@dataclass(frozen=True, slots=True)
class Note:
    """A signal in a mailbox, without its payload."""

    seq: int
    name: str
    waitpoint: str | None
    source: str


@dataclass(frozen=True, slots=True)
class Gate:
    """A waitpoint as a wait sees it."""

    expires_at: int
    once: bool = True
    closed: bool = False
    name: str = ""


Place: TypeAlias = "tuple[str, str]"


def check_on_timeout(on_timeout: OnTimeout) -> OnTimeout:
    if on_timeout not in _ON_TIMEOUT:
        raise InvalidInput(f"on_timeout is {on_timeout!r}; use one of {', '.join(_ON_TIMEOUT)}")
    return on_timeout


def check_distinct(distinct: Distinct) -> Distinct:
    if distinct not in _DISTINCT:
        raise InvalidInput(f"distinct is {distinct!r}; use one of {', '.join(_DISTINCT)}")
    return distinct


def check_needed(needed: object, asked: int) -> int:
    """Return the number of signals that end a wait for `asked` names and waitpoints; 0 is one from each."""
    if needed is None:
        return 1
    if needed == "all":
        return 0 if asked else 1
    if not isinstance(needed, int) or isinstance(needed, bool) or needed < 1:
        raise InvalidInput(f"needed is {needed!r}; use 'all', or how many signals end the wait")
    return needed


def in_order(signals: Sequence[Received], asked: Condition) -> Sequence[Received]:
    """Sort signals: one from each in the order in which they were asked for, any others as they were accepted."""
    if asked.needed:
        return signals
    places = {source: at for at, source in enumerate((*asked.names, *asked.waitpoints))}
    return sorted(signals, key=lambda signal: places.get(signal.waitpoint or signal.name, 0))


def chosen(condition: Condition, mailbox: Iterable[Note]) -> list[int] | None:
    """Return the signals that meet the condition, in the order of acceptance; None if it is not met."""
    fitting = [note for note in mailbox if _concerns(condition, note)]
    if not condition.names and not condition.waitpoints:
        return None
    if condition.needed == 0:
        return _one_each(condition, fitting)
    return _first_of_each_kind(condition, fitting)


def hope(condition: Condition, mailbox: Iterable[Note], gates: Mapping[str, Gate]) -> int | None:
    """Return the instant from which signals can no longer meet the condition; None if they always could.

    A waitpoint that is not in `gates` takes nothing.
    """
    if not condition.waitpoints:
        return None
    arrived = {note.waitpoint for note in mailbox}
    missing = sorted((_until(gates.get(id)) for id in condition.waitpoints if id not in arrived), reverse=True)
    if condition.needed == 0:
        return missing[-1] if missing else None
    if condition.names:
        return None
    if any(id in gates and not gates[id].once for id in condition.waitpoints):
        return max(_until(gates.get(id)) for id in condition.waitpoints)
    lacking = condition.needed - sum(id in arrived for id in condition.waitpoints)
    # The last moment at which enough of them are still open.
    return 0 if lacking > len(missing) else missing[lacking - 1]


def _concerns(condition: Condition, note: Note) -> bool:
    return note.name in condition.names or (note.waitpoint is not None and note.waitpoint in condition.waitpoints)


def _one_each(condition: Condition, fitting: Sequence[Note]) -> list[int] | None:
    # Waitpoints before names: a signal at a waitpoint has a name too, and must not be used for that.
    taken: list[int] = []
    for kind, wanted in _places(condition):
        found = next((note.seq for note in fitting if note.seq not in taken and _place(note, kind) == wanted), None)
        if found is None:
            return None
        taken.append(found)
    return sorted(taken)


def _first_of_each_kind(condition: Condition, fitting: Sequence[Note]) -> list[int] | None:
    first: dict[object, int] = {}
    for note in fitting:
        first.setdefault(_kind(condition, note), note.seq)
        if len(first) == condition.needed:
            return sorted(first.values())
    return None


def _kind(condition: Condition, note: Note) -> object:
    match condition.distinct:
        case "signals":
            return note.seq
        case "sources":
            return note.source
        case "waitpoints":
            return note.waitpoint or note.name


def _places(condition: Condition) -> list[Place]:
    return [*(("waitpoint", id) for id in condition.waitpoints), *(("name", name) for name in condition.names)]


def _place(note: Note, kind: str) -> str | None:
    return note.waitpoint if kind == "waitpoint" else note.name


def _until(gate: Gate | None) -> int:
    return 0 if gate is None or gate.closed else gate.expires_at


LONGEST: Final = 1024
"""Bytes of a token."""
SECRET_BYTES: Final = 32
_VERSION: Final = "v1"
_PURPOSE: Final = b"sig-v1"
_KID: Final = re.compile(r"[A-Za-z0-9_-]{1,32}")
# A secret for unknown keys. It is random, so nothing was ever signed with it.
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
    """A parsed token. Nothing in it is trusted before `is_signed` returns True."""

    kid: str
    claims: Claims
    signed: bytes
    mac: bytes
    is_whole: bool
    """False for a stand-in, which never verifies."""


_STAND_IN: Final = Parsed("-", Claims("", "-", 0, "-", 0, "-", True), b"-", bytes(32), is_whole=False)


def sign(secret: bytes, kid: str, claims: Claims) -> str:
    """Return the token for these claims, the same each time."""
    text = f"{_VERSION}.{kid}.{base64url.encode(msgspec.json.encode(claims))}"
    token = f"{text}.{base64url.encode(_mac(secret, claims.tenant, text.encode()))}"
    if len(token) > LONGEST:
        raise InvalidInput(f"the token would take {len(token):,} bytes of {LONGEST:,}; shorten the waitpoint's name")
    return token


def parse(token: str) -> Parsed:
    """Parse a token, or return a stand-in that takes as long to check and fails."""
    try:
        return _parse(token)
    except (ValueError, msgspec.MsgspecError, RecursionError):
        return _STAND_IN


def is_signed(parsed: Parsed, secret: bytes | None) -> bool:
    """Return whether the key with this secret signed it; a secret of None stands for an unknown key."""
    mac = _mac(secret or _NOBODYS, parsed.claims.tenant, parsed.signed)
    # `&`, not `and`: each part is always checked.
    return bool(hmac.compare_digest(mac, parsed.mac) & (secret is not None) & parsed.is_whole)


def looks_like_token(text: str) -> bool:
    """Return whether a text has the form of a token, valid or not."""
    return text.startswith(_VERSION + ".")


def check_kid(kid: object) -> str:
    """Check the name of a key, as it is written in tokens."""
    if not isinstance(kid, str) or not _KID.fullmatch(kid):
        raise InvalidInput(f"a key's name is 1 to 32 letters, digits, - and _, not {kid!r}")
    return kid


def check_secret(secret: object) -> str:
    """Check a key's secret; return it as it is stored: 64 hexadecimal digits, in lower case."""
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
    """Derive a key for this purpose and this tenant: HKDF of one block."""
    extracted = hmac.digest(bytes(32), secret, "sha256")
    return hmac.digest(extracted, b"holdfast signal " + tenant.encode("utf-8", "surrogatepass") + b"\x01", "sha256")
