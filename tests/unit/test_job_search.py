"""The search line of the jobs: what it means, what it refuses, and that it can be written back."""

from __future__ import annotations

import string
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.clock import SECOND
from holdfast.errors import InvalidInput
from holdfast.model.jobs import JobRecord, JobState
from holdfast.web.search.meaning import filter_of, fingerprint_of, is_exact, matches
from holdfast.web.search.query import KNOWN, NOTHING, BadSearch, Search, parse, write
from holdfast.web.search.values import instant, read_bound, read_length

NOW = 1_700_000_000 * SECOND


def record(**fields: Any) -> JobRecord:
    names = JobRecord.__dataclass_fields__
    row: dict[str, Any] = dict.fromkeys(names)
    row |= {"id": "01jobs", "task": "mail.send", "queue": "mail", "tenant": "", "state": JobState.FAILED, "attempts": 3}
    row |= {"priority": 0, "payload": '{"to":"Ada"}', "tags": '["vip","eu"]'}
    row |= {"error": '{"type":"ValueError","message":"no such card"}'}
    return JobRecord(**{**row, **fields})


def meant(line: str, job: JobRecord | None = None, *, payload: bool = True) -> bool:
    return matches(job or record(), parse(line), NOW, payload=payload)


def test_qualifiers_and_words_are_told_apart() -> None:
    found = parse('queue:mail state:failed task:billing.charge tag:x tag:y tenant:acme "two words" lone')
    assert found == Search(
        state="failed",
        queue="mail",
        task="billing.charge",
        tenant="acme",
        tags=("x", "y"),
        words=("two words", "lone"),
    )


def test_an_empty_line_looks_for_everything() -> None:
    assert parse("  \t ") == NOTHING
    assert NOTHING.is_empty
    assert write(NOTHING) == ""


def test_a_value_in_quotes_may_contain_anything() -> None:
    assert parse(r'queue:"a b:c \"d\" \\e"').queue == r'a b:c "d" \e'


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("colour:red", "colour"),
        ("state:done", "done"),
        ("queue:", "queue:"),
        ('queue:""', "queue"),
        ("queue:a queue:b", "twice"),
        ('"open', "quote"),
        ('"a"b', "quote"),
        ('""', "nothing"),
        ("took:long", "took:long"),
        ("attempts:>many", "attempts"),
        ("priority:1.5", "priority"),
        ("since:yesterday", "since"),
        ("since:9999999999999d", "since"),
        ("queue:a\x00b", "U+0000"),
        ("x" * 1001, "1,001"),
    ],
)
def test_what_cannot_be_meant_is_named(line: str, named: str) -> None:
    with pytest.raises(BadSearch, match=named.replace("+", r"\+")):
        parse(line)


@pytest.mark.parametrize("name", KNOWN)
def test_every_qualifier_without_a_value_says_how_to_write_it(name: str) -> None:
    with pytest.raises(BadSearch, match=name):
        parse(f'{name}:""')


@pytest.mark.parametrize(
    ("text", "given", "holds"),
    [("5", 5, True), ("5", 6, False), (">5", 6, True), (">5", 5, False), (">=5", 5, True), ("<5", 4, True),
     ("<=5", 6, False), ("-3", -3, True), (">5", None, False)],
)  # fmt: skip
def test_a_bound_compares(text: str, given: int | None, holds: bool) -> None:
    assert read_bound(text).holds(given) is holds


def test_lengths_and_instants_are_read() -> None:
    assert read_length("1.5h") == 5400 * SECOND
    assert instant("30s", NOW) == NOW - 30 * SECOND
    assert instant("2023-11-14T22:13:20", 0) == instant("2023-11-14T23:13:20+01:00", 0) == NOW


def test_what_the_store_answers_goes_to_the_store() -> None:
    search = parse("queue:mail state:failed task:t tenant:acme reason:r since:1h")
    wanted = filter_of(search, NOW)
    assert is_exact(search)
    assert (wanted.queue, wanted.state, wanted.task, wanted.tenant, wanted.reason) == (
        "mail",
        "failed",
        "t",
        "acme",
        "r",
    )
    assert wanted.created_after == NOW - 3600 * SECOND


@pytest.mark.parametrize("line", ["tag:x tag:y", "word", "took:>1s", "attempts:<2", "priority:>3", "error:f"])
def test_what_only_looking_can_tell_is_not_left_to_the_store(line: str) -> None:
    assert not is_exact(parse(line))


def test_what_the_store_can_look_for_is_left_to_it() -> None:
    search = parse("worker:w flow:f tag:x priority:3 attempts:>1")
    wanted = filter_of(search, NOW)
    assert is_exact(search)
    assert (wanted.worker, wanted.flow, wanted.tag, wanted.priority, wanted.min_attempts) == ("w", "f", "x", 3, 2)
    assert filter_of(parse("attempts:>=4"), NOW).min_attempts == 4


def test_a_job_must_have_every_tag_and_every_word() -> None:
    assert meant("tag:vip tag:eu")
    assert not meant("tag:vip tag:us")
    assert meant('"no such card" MAIL')
    assert not meant("card missing")


def test_arguments_are_searched_only_by_those_who_may_see_them() -> None:
    assert meant("ada")
    assert not meant("ada", payload=False)
    assert meant("card", payload=False)


def test_an_error_is_found_by_its_kind() -> None:
    job = record(error='{"type":"ValueError","message":"no such card 17"}')
    kind = fingerprint_of(job)
    assert meant(f"error:{kind}", replace(job, error='{"type":"ValueError","message":"no such card 18"}'))
    assert not meant(f"error:{kind}", record(error=None))


def test_how_long_it_ran_is_compared() -> None:
    ran = record(started_at=NOW - 100 * SECOND, claimed_at=NOW - 40 * SECOND, finished_at=NOW)
    assert meant("took:>30s", ran)
    assert not meant("took:>1m", ran)
    assert meant("took:>1m", record(state=JobState.RUNNING, claimed_at=NOW - 90 * SECOND))
    assert not meant("took:<1m", record())


_values = st.text(min_size=1, max_size=20).filter(lambda text: "\x00" not in text and _is_plain(text))
_bounds = st.tuples(st.sampled_from(["", ">", ">=", "<", "<="]), st.integers(-999, 999)).map(lambda b: f"{b[0]}{b[1]}")


def _is_plain(text: str) -> bool:
    return all(c.isprintable() or c in "\t\n\r" for c in text) and not any(0xD800 <= ord(c) < 0xE000 for c in text)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "state": st.sampled_from(sorted(JobState)),
            "queue": _values,
            "task": _values,
            "tenant": _values,
            "reason": _values,
            "flow": _values,
            "worker": _values,
            "error": _values,
            "tags": st.lists(_values, max_size=3, unique=True).map(tuple),
            "attempts": _bounds.map(read_bound),
            "priority": _bounds.map(read_bound),
            "took": st.just(read_bound(">30s", read_length)),
            "since": st.sampled_from(["1h", "2026-11-15T09:00", "15m"]),
            "words": st.lists(_values, max_size=3, unique=True).map(tuple),
        },
    )
)
def test_what_is_written_is_read_as_it_was_meant(fields: dict[str, object]) -> None:
    search = Search(**fields)  # type: ignore[arg-type]
    line = write(search)
    if len(line) <= 1000:
        assert parse(line) == search


@given(st.text(max_size=60) | st.text(alphabet=string.ascii_lowercase + ':" \\><=', max_size=40))
def test_any_line_is_read_or_refused_with_a_message(line: str) -> None:
    try:
        search = parse(line)
    except InvalidInput as refused:
        assert str(refused)
        return
    filter_of(search, NOW)
    meant(line)
    assert parse(write(search)) == search
