"""Artifacts: files stored by jobs. Content is streamed, whole or by range, and always as a download."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs
from starlette.responses import Response, StreamingResponse

from ...model.artifacts import Artifact
from ..wire.call import Call
from ..wire.downloads import Span, download_headers, is_known, span_of
from ..wire.operation import Group
from .paging import Page, whole
from .types import Name

group = Group("Artifacts", "Named files stored by jobs.")


@group.get("/jobs/{job_id}/artifacts", needs="read")
async def list_artifacts(call: Call, job_id: Name) -> Page[Artifact]:
    """List a job's artifacts without their content: first its result, then by name."""
    return whole([shown(call, one) for one in await call.client.artifacts.alist(job_id)])


@group.get("/jobs/{job_id}/artifacts/{name}", needs="read")
async def get_artifact(call: Call, job_id: Name, name: Name) -> Artifact:
    """Get one artifact without its content."""
    return shown(call, await call.client.artifacts.aget(job_id, name))


@group.get(
    "/jobs/{job_id}/artifacts/{name}/content",
    needs="payload",
    shows_payload=True,
    media="*/*",
    also=(206,),
    request_headers=("Range", "If-Range", "If-None-Match"),
    besides=((304, "Not modified"), (416, "The range starts after the end")),
)
async def read_artifact(call: Call, job_id: Name, name: Name) -> Response:
    """Download an artifact.

    `Range: bytes=…` asks for one range. The content is always sent as a download, whatever its type.
    """
    found = await call.client.artifacts.aget(job_id, name)
    asked, headers = call.request.headers, download_headers(found.name, f'"{found.sha256}"')
    if is_known(asked, headers["etag"]):
        return Response(None, 304, headers)
    span = span_of(asked, found.size, headers["etag"]) if call.request.method == "GET" else None
    return _answer(call, found, span, headers)


def shown(call: Call, artifact: Artifact) -> Artifact:
    """Return an artifact, without its hash where the caller may not see payloads."""
    return artifact if call.may("payload") else structs.replace(artifact, sha256=None)


def _answer(call: Call, found: Artifact, span: Span | None, headers: Mapping[str, str]) -> Response:
    start, length = (0, found.size) if span is None else (span.start, span.length)
    headers = {**headers, "content-length": str(length), "content-type": found.content_type}
    if span is not None:
        headers["content-range"] = f"bytes {start}-{start + length - 1}/{found.size}"
    if call.request.method == "HEAD":
        return Response(None, 200, headers)
    pieces = call.client.artifacts.aopen(found.job_id, found.name, start=start, length=length)
    return StreamingResponse(pieces, 200 if span is None else 206, headers)
