"""Artifacts: named bytes with a content type, which belong to a job."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

COMPLETION: Final = "completion"
"""The name under which a job's result is found among its artifacts."""
INLINE: Final = 256 * 1024
"""Up to this many bytes are kept in the artifact's own row; more are kept in a blob."""
PART: Final = 256 * 1024
"""The number of bytes of a blob that are read or written at once."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A stored artifact without its bytes. `sha256` is in hexadecimal, `created_at` in microseconds since 1970."""

    job_id: str
    name: str
    content_type: str
    size: int
    sha256: str
    created_at: int

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


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
