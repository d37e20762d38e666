"""Many rows by few statements: each is stored once, as it is, whatever rows have in common."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.storage.port import Row
from holdfast.storage.sqlite.spread import spread
from holdfast.storage.statements import Statement

INSERT = "insert into note (who, what, at) select :who, :what, :now\n  from @rows\n where :what <> 'nothing'"
NOTE = Statement("note", INSERT.replace("\n  from @rows", ""), "", INSERT)

values = st.one_of(st.integers(-5, 5), st.text(max_size=3), st.binary(max_size=3))


def store(rows: list[Row]) -> tuple[list[Row], int]:
    """What is in the table then, and how many statements it took."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table note (who, what, at)")
        parts = list(spread(NOTE, ("who", "what"), rows, {"now": 7}))
        for text, given_values in parts:
            connection.execute(text, given_values)
        return connection.execute("select * from note order by rowid").fetchall(), len(parts)


@given(st.lists(st.tuples(st.none() | values, values), min_size=2, max_size=40))
def test_each_row_is_stored_as_it_is_and_in_order(rows: list[Row]) -> None:
    assert store(rows)[0] == [(*row, 7) for row in rows]


def test_rows_that_are_all_alike_are_all_stored() -> None:
    assert store([("a", "b")] * 5)[0] == [("a", "b", 7)] * 5


def test_a_row_that_the_statement_does_not_want_is_left_out_alone() -> None:
    assert store([("a", "b"), ("a", "nothing"), ("a", "c")])[0] == [("a", "b", 7), ("a", "c", 7)]


@pytest.mark.parametrize(("count", "statements"), [(2, 1), (3, 2), (128, 1), (200, 3), (1_000, 10), (1_024, 8)])
def test_it_takes_few_statements(count: int, statements: int) -> None:
    rows = [(str(number), "same") for number in range(count)]
    found, took = store(rows)
    assert (len(found), took) == (count, statements)
