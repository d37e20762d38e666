"""Stores with the small table of the kit in them."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from holdfast.storage.postgres import PostgresStore
from tests.storage.kit import TABLE


@pytest.fixture
def noted_dsn(postgres_dsn: str) -> str:
    with psycopg.connect(postgres_dsn) as connection:
        connection.execute(TABLE)
    return postgres_dsn


@pytest.fixture
def store(noted_dsn: str) -> Iterator[PostgresStore]:
    opened = PostgresStore(noted_dsn)
    yield opened
    opened.close()
