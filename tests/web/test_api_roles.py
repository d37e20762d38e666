"""Every operation demands its role, before it reads anything else."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from holdfast.model.access import ROLES
from holdfast.web.api import GROUPS
from holdfast.web.wire.operation import Needs, Operation

from .web_kit import Site

ALL = [operation for group in GROUPS for operation in group.operations]
OPEN = {"live", "ready", "health", "openapi", "send_by_token", "get_keyed_result"}
"""The last two take a signed token of a waitpoint or a key of a job, which say themselves what they are good for."""


def test_every_operation_says_what_it_needs() -> None:
    assert all(operation.needs in (*get_args(get_args(Needs)[0]), "nothing") for operation in ALL)


def test_nothing_but_what_is_listed_here_is_open_to_all() -> None:
    assert {operation.name for operation in ALL if operation.needs == "nothing"} == OPEN


def test_looking_alone_needs_no_more_than_to_be_a_viewer_and_acting_always_does() -> None:
    for operation in ALL:
        if operation.needs != "nothing" and operation.method != "GET":
            assert operation.needs not in ROLES["viewer"], operation.name


def test_names_of_operations_are_unique() -> None:
    names = [operation.name for operation in ALL]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\x00"])
def test_without_a_token_every_operation_is_refused(site: Site, body: bytes) -> None:
    nobody = site.as_nobody()
    for operation in ALL:
        if operation.needs != "nothing":
            answer = nobody.call(operation.method, _path(operation), content=body)
            assert answer.status_code == 401, operation.name
            assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_with_a_token_that_is_good_for_less_it_is_refused_whatever_the_body(site: Site, role: str) -> None:
    caller = site.as_role(role)
    for operation in ALL:
        if operation.needs != "nothing" and operation.needs not in ROLES[role]:
            answer = caller.call(operation.method, _path(operation), content=b"{")
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden"), operation.name


def test_with_a_token_that_is_good_for_it_no_operation_is_forbidden(site: Site) -> None:
    caller = site.as_role("admin")
    for operation in ALL:
        if operation.method != "GET":
            # The body is wrong, or what is named is not there; both come after the question who asks.
            answer = caller.call(operation.method, _path(operation), content=b"{")
            assert answer.status_code not in (401, 403, 500), operation.name


def _path(operation: Operation) -> str:
    return "/api/v1" + re.sub(r"\{\w+(:path)?\}", "x", operation.path)
