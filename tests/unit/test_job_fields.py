"""The columns of a job are said once, and every statement has them."""

from __future__ import annotations

import re

import pytest

from holdfast.model.jobs import Claimed, JobSpec
from holdfast.model.routing import Route
from holdfast.storage import job_fields
from holdfast.storage.statements import sql


def test_what_is_stored_as_given_has_one_value_for_each_column() -> None:
    spec = JobSpec(id="1", task="work", route=Route("default"), payload="{}", tags='["a"]', created_by="ada")
    values = dict(zip(job_fields.GIVEN, job_fields.given(spec), strict=True))
    assert values.items() >= {"id": "1", "task": "work", "tags": '["a"]', "created_by": "ada"}.items()
    assert not values.keys() & {"route", "deadline", "at", "delay", "dedupe"}


def test_the_forms_of_a_list_name_the_same_columns() -> None:
    columns = job_fields.expand("@given").split(", ")
    assert columns == list(job_fields.GIVEN)
    assert job_fields.expand("@given(bound)").split(", ") == [f":{name}" for name in columns]
    typed = [one.split() for one in job_fields.expand("@given(typed)").split(", ")]
    assert [name for name, _ in typed] == columns
    assert job_fields.expand("@given(cast)").split(", ") == [f":{name}::{kind}" for name, kind in typed]
    assert {"payload": "text", "priority": "bigint", "timeout": "bigint"}.items() <= dict(map(tuple, typed)).items()
    kept = job_fields.expand("@given(kept)").split(", ")
    assert set(columns) - set(kept) == {"id", "created_by"}
    assert job_fields.expand("select @job(j)").startswith("select j.id, j.task, j.queue")


@pytest.mark.parametrize("name", ["claim_jobs", "claim_suspects", "claimed_under"])
def test_a_claim_returns_what_a_worker_reads(name: str) -> None:
    statement = getattr(sql, name)
    for text in (statement.sqlite, statement.postgres):
        assert job_fields.expand("@claimed") in text
    assert len(job_fields.CLAIMED) == len(Claimed.__struct_fields__)


@pytest.mark.parametrize("name", ["insert_job", "insert_plain_job", "copy_jobs"])
def test_every_insert_has_every_column_that_is_given(name: str) -> None:
    statement = getattr(sql, name)
    for text in (statement.sqlite, statement.postgres):
        (columns,) = re.findall(r"holdfast_job \(\s*([^)]+)\)", text)
        assert set(job_fields.GIVEN) <= set(re.split(r",\s*", columns))


def test_no_list_is_left_unexpanded() -> None:
    for statement in sql:
        assert not re.search(r"@(job|claimed|given|wanted)", statement.sqlite + statement.postgres), statement.name
