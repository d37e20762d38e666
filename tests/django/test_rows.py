"""Rows of models as arguments: refused, or passed by a reference."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group

from holdfast.contrib.django import ModelRef
from holdfast.errors import InvalidArguments
from tests.django.conftest import Project


def test_a_row_is_refused_with_what_to_pass(project: Project) -> None:
    @project.app.task
    def greet(group: Any) -> None: ...

    with pytest.raises(InvalidArguments, match="pass its primary key, and load it in the task"):
        greet.enqueue(Group(pk=1, name="admins"))


def test_a_reference_stores_app_label_model_and_primary_key(project: Project) -> None:
    @project.app.task
    def greet(group: ModelRef[Group]) -> str:
        return group.model

    job = greet.enqueue(ModelRef.to(Group(pk=7)))
    stored = json.loads(project.app.jobs.get(job.id).payload)
    assert stored == {"group": {"app_label": "auth", "model": "group", "pk": 7}}
    project.app.drain()
    assert job.result() == "group"


def test_a_reference_reads_the_row_when_it_is_asked_for(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group.objects.using(project.alias).create(name="editors")
    monkeypatch.setattr(Group._base_manager, "_db", project.alias)
    assert ModelRef.to(group).get() == group
    group.delete()
    with pytest.raises(Group.DoesNotExist):
        ModelRef[Group]("auth", "group", 404).get()


def test_a_row_that_is_not_saved_has_no_reference() -> None:
    with pytest.raises(InvalidArguments, match="save it first"):
        ModelRef.to(Group(name="new"))


def test_a_reference_is_to_a_row(project: Project) -> None:
    with pytest.raises(InvalidArguments, match="takes a row of a model"):
        ModelRef.to(5)  # type: ignore[type-var]


def test_a_key_that_is_no_number_is_text() -> None:
    group = Group(pk=UUID(int=5))
    assert ModelRef.to(group).pk == str(UUID(int=5))
