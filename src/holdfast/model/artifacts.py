"""Artifacts: named bytes with a content type, which belong to a job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from .values import Instant

COMPLETION: Final = "completion"
"""The name under which a job's result is found among its artifacts."""
INLINE: Final = 256 * 1024
"""Up to this many bytes are kept in the artifact's own row; more are kept in a blob."""
PART: Final = 256 * 1024
"""The number of bytes of a blob that are read or written at once."""


class Artifact(msgspec.Struct, frozen=True):
    """A stored artifact without its bytes. The result of a job that succeeded is one, named `completion`."""

    job_id: str
    name: str
    content_type: str
    size: int
    sha256: str | None
    """In hexadecimal; None where the caller may not see payloads: it would confirm a guess."""
    created_at: Instant


@dataclass(frozen=True, slots=True)
class Content:
    """An artifact to store: in the row (`data`) or in a blob."""

    name: str
    content_type: str
    size: int
    sha256: str
    data: bytes | None = None
    blob: str | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """An artifact and where its bytes are."""

    artifact: Artifact
    data: bytes | None = None
    blob: str | None = None
