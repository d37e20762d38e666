"""Artifacts at the command line: listed without their bytes, and written out whole or in part."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import App, SyncContext

from .kit import Run, answer

LARGE = bytes(range(256)) * 2_000


@pytest.fixture
def job_id(app: App) -> str:
    @app.task
    def works(ctx: SyncContext) -> dict[str, int]:
        ctx.artifact("report.txt", "the report\n")
        ctx.artifact("large.bin", LARGE, "application/x-thing")
        return {"pages": 3}

    job = works.enqueue()
    app.drain()
    return job.id


def test_artifacts_are_listed_with_their_types_sizes_and_hashes(run: Run, job_id: str) -> None:
    found = answer(run("jobs", "artifacts", "list", job_id, "--json"))["artifacts"]
    assert [(item["name"], item["content_type"], item["size"]) for item in found] == [
        ("completion", "application/json", 11),
        ("large.bin", "application/x-thing", len(LARGE)),
        ("report.txt", "text/plain; charset=utf-8", 11),
    ]
    assert all(len(item["sha256"]) == 64 and item["created_at"].endswith("Z") for item in found)
    text = run("jobs", "artifacts", "list", job_id).output
    assert "report.txt" in text and found[1]["sha256"] in text


def test_a_job_without_artifacts_says_so(app: App, run: Run) -> None:
    job = app.enqueue(app.tasks["mail"].job())
    assert answer(run("jobs", "artifacts", "list", job.id, "--json")) == {"artifacts": []}
    assert "no artifacts" in run("jobs", "artifacts", "list", job.id).output


def test_the_bytes_go_to_standard_output_or_into_a_file(run: Run, job_id: str, tmp_path: Path) -> None:
    assert run("jobs", "artifacts", "get", job_id, "report.txt").output == "the report\n"
    assert run("jobs", "artifacts", "get", job_id, "completion").output == '{"pages":3}'
    assert run("jobs", "artifacts", "get", job_id, "large.bin").stdout_bytes == LARGE
    part = run("jobs", "artifacts", "get", job_id, "report.txt", "--start", 4, "--length", 6)
    assert part.output == "report"
    target = tmp_path / "large.bin"
    told = answer(run("jobs", "artifacts", "get", job_id, "large.bin", "--output", target, "--json"))
    assert (target.read_bytes(), told["size"], told["output"]) == (LARGE, len(LARGE), str(target))
    assert [file.name for file in tmp_path.iterdir() if file.name.endswith(".part")] == []


def test_with_json_and_without_a_file_only_the_facts_are_told(run: Run, job_id: str) -> None:
    told = answer(run("jobs", "artifacts", "get", job_id, "large.bin", "--json"))
    assert (told["name"], told["size"], told["output"]) == ("large.bin", len(LARGE), None)
    assert answer(run("jobs", "artifacts", "get", job_id, "large.bin", "--json", "-o", "-"), 2)["error"]["code"] == (
        "invalid"
    )


def test_a_file_that_exists_is_left_alone_unless_forced(run: Run, job_id: str, tmp_path: Path) -> None:
    target = tmp_path / "report.txt"
    target.write_text("mine")
    refused = run("jobs", "artifacts", "get", job_id, "report.txt", "-o", target)
    assert (refused.exit_code, target.read_text()) == (2, "mine")
    assert run("jobs", "artifacts", "get", job_id, "report.txt", "-o", target, "--force").exit_code == 0
    assert target.read_text() == "the report\n"
    nowhere = run("jobs", "artifacts", "get", job_id, "report.txt", "-o", tmp_path / "no" / "where")
    assert (nowhere.exit_code, "cannot be written" in nowhere.output) == (2, True)


def test_what_is_not_there_is_not_found(run: Run, job_id: str) -> None:
    assert run("jobs", "artifacts", "get", job_id, "nothing").exit_code == 3
    assert run("jobs", "artifacts", "get", "nobody", "report.txt").exit_code == 3
    assert run("jobs", "artifacts", "list", "nobody").exit_code == 3


def test_the_doctor_says_what_the_store_can_do(app: App, run: Run) -> None:
    found = run("doctor", "--json")
    told = answer(found, found.exit_code)["capabilities"]
    assert told == app.capabilities().as_data()
    assert told["backend"] == app.open().backend
    assert told["supports"]["artifacts"] == ("table" if told["backend"] == "postgres" else "files")
    assert (told["limits"]["artifact_in_row"], told["limits"]["name"]) == (256 * 1024, 128)
    text = run("doctor").output
    assert "\nCapabilities\n" in text and "\nLimits\n" in text
