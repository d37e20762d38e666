"""Handles of leased jobs: `hf1.<backend>.<store>.<run>.<check>`. They say which run of which job is meant, and where.

A handle is no secret and proves nothing by itself: every write still asks the store whose the job is. The check finds
what was damaged on its way; it does not keep anybody from making a handle of their own.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec

from ..errors import BadHandle, InvalidInput
from ..names import check_name
from . import base64url

LONGEST: Final = 640
"""Characters of a handle."""
_VERSION: Final = "hf1"
_CHECK_BYTES: Final = 6
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
    """The store that gives out handles."""

    backend: str
    store: str


def write(origin: Origin, lease: Lease) -> str:
    """The handle of a run: the same each time."""
    text = f"{_VERSION}.{origin.backend}.{origin.store}.{base64url.encode(msgspec.json.encode(lease))}"
    return f"{text}.{_check(text)}"


def read(origin: Origin, handle: object) -> Lease:
    """The run that a handle stands for. BadHandle where it is damaged, of another version, or of another store."""
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
        whole = _STORE.fullmatch(store) and write(Origin(backend, store), lease) == handle
    except (ValueError, msgspec.MsgspecError, RecursionError, InvalidInput):
        raise _corrupt() from None
    if not whole:
        raise _corrupt()
    if Origin(backend, store) != origin:
        raise BadHandle(
            "foreign", f"the handle is of another store ({backend}); send it to the server that gave out the job"
        )
    return lease


def _run_of(handle: str) -> Lease:
    lease = msgspec.json.decode(base64url.decode(handle.split(".")[3]), type=Lease)
    # Whoever makes a handle of their own must not get text into a statement that no id can have.
    check_name("the id", lease.job_id)
    check_name("the worker", lease.worker)
    return lease


def _check(text: str) -> str:
    return base64url.encode(hashlib.blake2b(text.encode(), digest_size=_CHECK_BYTES).digest())


def _corrupt() -> BadHandle:
    return BadHandle("corrupt", "that is no handle of a leased job; pass the handle back exactly as the claim gave it")
