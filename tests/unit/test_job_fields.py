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
    values = dict(zip(job_fields.GIVEN, job_fields.reader(job_fields.GIVEN)(spec), strict=True))
    assert values.items() >= {"id": "1", "task": "work", "tags": '["a"]', "created_by": "ada"}.items()
    assert not values.keys() & {"route", "deadline", "at", "delay", "dedupe"}


def test_the_forms_of_a_list_name_the_same_columns() -> None:
    typed = [one.split() for one in job_fields.expand("@given(typed)").split(", ")]
    assert [name for name, _ in typed] == list(job_fields.GIVEN)
    assert {"payload": "text", "priority": "bigint", "timeout": "bigint"}.items() <= dict(map(tuple, typed)).items()
    for which, names in (("given", job_fields.STORED), ("copied", job_fields.COPIED)):
        columns = job_fields.expand(f"@{which}").split(", ")
        assert columns == list(names)
        assert job_fields.expand(f"@{which}(bound)").split(", ") == [f":{name}" for name in columns]
        cast = [f":{name}::{kind}" for name, kind in typed if name in columns]
        assert job_fields.expand(f"@{which}(cast)").split(", ") == cast
        kept = job_fields.expand(f"@{which}(kept)").split(", ")
        assert set(columns) - set(kept) == {"id", "created_by"} & set(columns)
    assert set(job_fields.STORED) | set(job_fields.COPIED) == set(job_fields.GIVEN)
    assert job_fields.expand("select @job(j)").startswith("select j.id, j.task, j.queue")


@pytest.mark.parametrize("name", ["claim_jobs", "claim_suspects", "claimed_under"])
def test_a_claim_returns_what_a_worker_reads(name: str) -> None:
    statement = getattr(sql, name)
    on_sqlite = statement.sqlite + (statement.then.sqlite if statement.then else "")
    for text in (on_sqlite, statement.postgres):
        assert any(job_fields.expand(read) in text for read in ("@claimed(live)", "@claimed(taken)", "@taken(live)"))
    assert len(job_fields.CLAIMED) == len(Claimed.__struct_fields__)


@pytest.mark.parametrize("names", [("insert_job",), ("insert_plain_job",), ("copy_jobs", "copy_live")])
def test_every_insert_has_every_column_that_is_given(names: tuple[str, ...]) -> None:
    statements = [getattr(sql, name) for name in names]
    on_sqlite = [text.sqlite for one in statements for text in (one, one.then) if text]
    for texts in ("\n".join(on_sqlite), "\n".join(one.postgres for one in statements)):
        for table, expected in (("job", job_fields.STORED), ("live", job_fields.COPIED)):
            (columns,) = re.findall(rf"(?:insert into|copy) holdfast_{table} \(\s*([^)]+)\)", texts)
            assert set(expected) <= set(re.split(r",\s*", columns))


def test_no_list_is_left_unexpanded() -> None:
    for statement in sql:
        assert not re.search(
            r"@(job|claimed|given|copied|ended|success|key|wanted)", statement.sqlite + statement.postgres
        ), statement.name
