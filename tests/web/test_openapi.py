"""The document that describes the API."""

from __future__ import annotations

from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from holdfast.web.api import GROUPS
from holdfast.web.wire.openapi import document

from .web_kit import Site


@pytest.fixture(scope="module")
def doc() -> dict[str, Any]:
    return document(GROUPS)


def test_the_document_is_valid(doc: dict[str, Any]) -> None:
    assert doc["openapi"].startswith("3.1")
    assert [error.message for error in OpenAPIV31SpecValidator(doc).iter_errors()] == []


def test_every_operation_has_an_id_a_summary_and_one_known_tag(doc: dict[str, Any]) -> None:
    operations = [operation for path in doc["paths"].values() for operation in path.values()]
    tags = {tag["name"] for tag in doc["tags"]}
    ids = [operation["operationId"] for operation in operations]
    assert sorted(ids) == sorted(set(ids))
    for operation in operations:
        assert operation["summary"], operation["operationId"]
        assert len(operation["tags"]) == 1 and set(operation["tags"]) <= tags


def test_every_operation_says_how_to_be_let_in(doc: dict[str, Any]) -> None:
    for path in doc["paths"].values():
        for operation in path.values():
            expected: list[Any] = [] if operation["x-needs"] == "nothing" else [{"token": []}]
            assert operation["security"] == expected


def test_tags_are_described_once(doc: dict[str, Any]) -> None:
    names = [tag["name"] for tag in doc["tags"]]
    assert sorted(names) == sorted(set(names))
    assert all(tag["description"] for tag in doc["tags"])


def test_the_document_is_open_to_all(site: Site, doc: dict[str, Any]) -> None:
    served = site.as_nobody().get("/openapi.json")
    assert served["servers"] == [{"url": "/"}]
    assert served["paths"].keys() == doc["paths"].keys()
