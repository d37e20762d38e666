"""Handles of leased jobs: `hf2.<backend>.<store>.<run>.<mac>`. They say which run of which job is meant, and where.

The MAC is made with a key of the store and names the holder of the worker, so that only that holder can use a handle,
and nobody can make one. It is not all that is checked: every write still asks the store whose the job is.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec

from ..errors import BadHandle, InvalidInput
from ..names import check_name
from . import base64url

LONGEST: Final = 640
"""Characters of a handle."""
_VERSION: Final = "hf2"
_MAC_BYTES: Final = 16
_PURPOSE: Final = b"holdfast handle"
_STORE: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_LIKE_A_VERSION: Final = re.compile(r"hf\d{1,3}", re.ASCII)
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Lease(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One run of one job: who has it, and since which change of hands."""

    job_id: str
    epoch: _Count
    worker: str
    generation: _Count
    attempt: _Count


@dataclass(frozen=True, slots=True)
class Origin:
    """The store that gives out handles, and the key that it signs them with."""

    backend: str
    store: str
    key: bytes = field(repr=False)


def write(origin: Origin, lease: Lease, holder: str = "") -> str:
    """The handle of a run, for the holder of its worker: the same each time."""
    text = f"{_VERSION}.{origin.backend}.{origin.store}.{base64url.encode(msgspec.json.encode(lease))}"
    return f"{text}.{_mac(origin.key, text, holder)}"


def read(origin: Origin, handle: object, holder: str = "") -> Lease:
    """The run that a handle stands for.

    BadHandle where it is damaged or forged, was given to another holder, or is of another version or store.
    """
    if not isinstance(handle, str) or len(handle) > LONGEST or not handle.isascii():
        raise _corrupt()
    version, *rest = handle.split(".")
    if version != _VERSION and _LIKE_A_VERSION.fullmatch(version):
        raise BadHandle(
            "version",
            f"the handle has the format {version}, and this Holdfast reads {_VERSION}; finish the job through the "
            "version that gave it out, or let its lease run out and claim again",
        )
    try:
        backend, store, _, _ = rest
        lease = _run_of(handle)
    except (ValueError, msgspec.MsgspecError, RecursionError, InvalidInput):
        raise _corrupt() from None
    if not hmac.compare_digest(write(origin, lease, holder), handle):
        # The key of another store is not here: that a handle is of one can only be read from it.
        if _STORE.fullmatch(store) and (backend, store) != (origin.backend, origin.store):
            raise BadHandle("foreign", "the handle is of another store; send it to the server that gave out the job")
        raise _corrupt()
    return lease


def _run_of(handle: str) -> Lease:
    lease = msgspec.json.decode(base64url.decode(handle.split(".")[3]), type=Lease)
    # No text gets into a statement that no id can have.
    check_name("the id", lease.job_id)
    check_name("the worker", lease.worker)
    return lease


def _mac(key: bytes, text: str, holder: str) -> str:
    signed = f"{text}\0{holder}".encode()
    return base64url.encode(hashlib.blake2b(signed, key=key, digest_size=_MAC_BYTES, person=_PURPOSE).digest())


def _corrupt() -> BadHandle:
    return BadHandle(
        "corrupt",
        "that is no handle of a job that this caller has claimed; pass it back exactly as the claim gave it, with the "
        "token that claimed it",
    )
