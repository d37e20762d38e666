"""The audience of an event is found, not asked for one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.events import Event
from holdfast.model.values import instant_of
from holdfast.model.webhooks import TASK, Endpoint
from holdfast.rules.webhooks import Audience, call_tags, receives, wanted_by

KINDS = ("job.failed", "job.succeeded", "flow.succeeded", "operator.job.hold", "job", "flow", "operator.job")
TAGS = ("a", "b", "c")
TENANTS = ("", "acme", "globex")


def some(words: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(words), min_size=1, max_size=3, unique=True).map(tuple)


@st.composite
def endpoints(draw: st.DrawFn) -> list[Endpoint]:
    return [
        Endpoint(
            id=f"end{n}", tenant=draw(st.sampled_from(TENANTS)), url="https://example.com/", reason=None,
            events=draw(st.none() | some(KINDS)), tags=draw(st.none() | some(TAGS)), called=draw(st.booleans()),
            state="active", concurrency=4, succeeded_at=None, created_at=instant_of(0), updated_at=instant_of(0),
        )
        for n in range(draw(st.integers(0, 6)))
    ]  # fmt: skip


@st.composite
def told(draw: st.DrawFn) -> Event:
    named = draw(st.none() | st.integers(0, 6))
    calls = () if named is None else call_tags(f"end{named}", draw(st.just(()) | some(KINDS)))
    return Event(
        cursor="1-0", at=instant_of(0), kind=draw(st.sampled_from(KINDS[:4])), job="job", queue="default",
        state="failed",
        task=draw(st.sampled_from(("work", TASK))), tenant=draw(st.sampled_from(TENANTS)),
        tags=(*draw(st.just(()) | some(TAGS)), *calls),
    )  # fmt: skip


@given(endpoints(), st.lists(told(), max_size=5))
def test_those_hear_of_an_event_who_would_say_so_themselves_each_once(all: list[Endpoint], events: list[Event]) -> None:
    audience = Audience(all)
    for event in events:
        found = [one.id for one in audience.of(event)]
        assert sorted(found) == sorted(one.id for one in all if receives(one, event))


def test_a_kind_is_asked_for_by_itself_and_by_its_beginnings() -> None:
    assert wanted_by(["job.failed", "operator.job.hold"]) == [
        "job", "job.failed", "operator", "operator.job", "operator.job.hold",
    ]  # fmt: skip
