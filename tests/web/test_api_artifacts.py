"""Artifacts over HTTP: always a download, whole or by range, never whole in memory."""

from __future__ import annotations

import hashlib

import httpx2
import pytest

import holdfast

from .web_kit import Site

CONTENT = bytes(range(256)) * 4_000
NAME = 're"port ü.html'


@pytest.fixture
def job(app: holdfast.App) -> str:
    """A job that left a page of its own making behind, and an empty file."""

    @app.task
    async def leave(ctx: holdfast.Context) -> str:
        await ctx.artifact(NAME, CONTENT, content_type="text/html")
        await ctx.artifact("empty", b"", content_type="text/plain")
        return "done"

    job = app.enqueue(app.tasks["leave"].job())
    app.drain()
    return job.id


def read(site: Site, job: str, name: str = NAME, method: str = "GET", **headers: str) -> httpx2.Response:
    path = f"/api/v1/jobs/{job}/artifacts/{httpx2.URL('http://x').copy_with(path='/' + name).raw_path[1:].decode()}"
    return site.call(method, f"{path}/content", headers={k.replace("_", "-"): v for k, v in headers.items()})


def test_artifacts_are_listed_with_the_result_first(site: Site, job: str) -> None:
    found = site.get(f"/jobs/{job}/artifacts")["items"]
    assert [one["name"] for one in found] == ["completion", "empty", NAME]
    assert found[2]["size"] == len(CONTENT)
    assert found[2]["sha256"] == hashlib.sha256(CONTENT).hexdigest()


def test_a_job_is_shown_with_its_artifacts(site: Site, job: str) -> None:
    assert site.get(f"/jobs/{job}")["artifacts"] == site.get(f"/jobs/{job}/artifacts")["items"]
    (_, empty, _) = site.as_role("viewer").get(f"/jobs/{job}")["artifacts"]
    assert (empty["name"], empty["content_type"], empty["size"], empty["sha256"]) == ("empty", "text/plain", 0, None)


def test_one_is_described_without_its_bytes(site: Site, job: str) -> None:
    assert site.get(f"/jobs/{job}/artifacts/empty")["content_type"] == "text/plain"
    assert site.call("GET", f"/api/v1/jobs/{job}/artifacts/nothing").status_code == 404


def test_a_page_that_a_job_made_is_saved_and_not_shown(site: Site, job: str) -> None:
    answer = read(site, job)
    assert answer.content == CONTENT
    assert answer.headers["content-type"] == "text/html"
    assert answer.headers["content-disposition"].startswith('attachment; filename="re_port _.html"')
    assert "filename*=UTF-8''re%22port%20%C3%BC.html" in answer.headers["content-disposition"]
    assert "nosniff" in answer.headers["x-content-type-options"]
    assert answer.headers["content-length"] == str(len(CONTENT))


@pytest.mark.parametrize(
    ("asked", "first", "last"),
    [("bytes=0-0", 0, 0), ("bytes=300000-700000", 300_000, 700_000), ("bytes=1023990-", 1_023_990, 1_023_999),
     ("bytes=-10", 1_023_990, 1_023_999), ("bytes=5-99999999", 5, 1_023_999), ("bytes=-99999999", 0, 1_023_999)],
)  # fmt: skip
def test_a_range_is_given_as_it_was_asked_for(site: Site, job: str, asked: str, first: int, last: int) -> None:
    answer = read(site, job, range=asked)
    assert answer.status_code == 206
    assert answer.headers["content-range"] == f"bytes {first}-{last}/{len(CONTENT)}"
    assert answer.content == CONTENT[first : last + 1]


def test_a_range_behind_the_end_cannot_be_satisfied(site: Site, job: str) -> None:
    answer = read(site, job, range=f"bytes={len(CONTENT)}-")
    assert (answer.status_code, answer.headers["content-range"]) == (416, f"bytes */{len(CONTENT)}")
    assert read(site, job, "empty", range="bytes=0-").status_code == 416
    assert read(site, job, "empty").content == b""


@pytest.mark.parametrize("asked", ["bytes=0-1,5-6", "bytes=9-1", "bytes=-", "lines=1-2", "bytes=x-y"])
def test_what_is_no_single_range_gives_the_whole(site: Site, job: str, asked: str) -> None:
    answer = read(site, job, range=asked)
    assert (answer.status_code, len(answer.content)) == (200, len(CONTENT))


def test_whoever_has_it_is_not_sent_it_again(site: Site, job: str) -> None:
    etag = read(site, job, "empty").headers["etag"]
    assert read(site, job, "empty", if_none_match=f'"x", {etag}').status_code == 304
    big = read(site, job).headers["etag"]
    assert read(site, job, range="bytes=0-1", if_range=big).status_code == 206
    assert read(site, job, range="bytes=0-1", if_range='"older"').status_code == 200


def test_head_tells_the_size_and_sends_nothing(site: Site, job: str) -> None:
    answer = read(site, job, method="HEAD", range="bytes=0-1")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-length"] == str(len(CONTENT))


def test_bytes_and_hashes_are_for_those_who_may_see_payloads(site: Site, job: str) -> None:
    viewer = site.as_role("viewer")
    assert read(viewer, job).status_code == 403
    assert {one["sha256"] for one in viewer.get(f"/jobs/{job}/artifacts")["items"]} == {None}
    foreign = site.as_role("operator", tenant="globex")
    assert read(foreign, job).status_code == 404
