"""Frames that a stream refuses."""

from __future__ import annotations

from .inputs import PayloadTooLarge
from .root import Conflict


class FrameTooLarge(PayloadTooLarge):
    """A frame is over its size limit. Nothing of it was emitted."""

    code = "frame_too_large"

    def __init__(self, size: int, limit: int) -> None:
        super().__init__("the frame", size, limit, "emit it in pieces, or store an artifact")


class StreamFull(Conflict):
    """The job's stream takes no more durable frames."""

    code = "stream_full"

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(
            f"the stream of job {job_id} is full: 1,000,000 frames or 256 MiB; emit larger frames, best-effort ones, "
            "or write an artifact"
        )
