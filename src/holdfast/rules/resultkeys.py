"""Keys by which a client without a token asks for the result of its own job: `hfr1.<job>.<mac>`.

The MAC is made with the secret of the store. A job's id can be guessed from its neighbours'; its key cannot.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from . import base64url

LONGEST: Final = 256
_VERSION: Final = "hfr1"
_PURPOSE: Final = b"holdfast result"
_MAC_BYTES: Final = 32


def result_key(secret: bytes, job_id: str) -> str:
    """Return the key of a job, the same each time."""
    return f"{_VERSION}.{base64url.encode(job_id.encode())}.{_mac(secret, job_id)}"


def job_of(secret: bytes, key: object) -> str | None:
    """Return the id of the job that a key is for; None if it is not a key of this store."""
    if not isinstance(key, str) or len(key) > LONGEST or not key.isascii():
        return None
    try:
        version, named, _ = key.split(".")
        job_id = base64url.decode(named).decode()
    except ValueError:
        return None
    good = hmac.compare_digest(result_key(secret, job_id), key)
    return job_id if good and version == _VERSION else None


def _mac(secret: bytes, job_id: str) -> str:
    mac = hashlib.blake2b(job_id.encode(), key=secret, digest_size=_MAC_BYTES, person=_PURPOSE)
    return base64url.encode(mac.digest())
