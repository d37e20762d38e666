"""Calls to payloads and back, by the annotations of the function itself."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Optional, TypeVar
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import ConfigError, InvalidArguments, PayloadTooLarge, Undecodable
from holdfast.tasks.signature import Signature

if TYPE_CHECKING:
    import nowhere  # type: ignore[import-not-found]

T = TypeVar("T")


class Context:
    pass


class SyncContext:
    pass


class NarrowContext(Context):
    pass


@dataclass(frozen=True)
class Address:
    street: str
    number: int


@dataclass(frozen=True)
class Blob:
    name: str
    data: bytes


class Sent(msgspec.Struct, tag=True):
    data: bytes


class Kept(msgspec.Struct, tag=True):
    data: str


class Order(pydantic.BaseModel):
    id: int


def of(function: Callable[..., object] | None, **more: Any) -> Signature:
    return Signature(function, name="mail", contexts=(Context, SyncContext), **more)


def run(function: Callable[..., Any], /, *args: object, **kwargs: object) -> Any:
    """Call `function` as a worker would: through its payload."""
    signature = of(function)
    given_args, given_kwargs = signature.decode(signature.encode(args, kwargs), context="the context")
    return function(*given_args, **given_kwargs)


def welcome(user_id: int, greeting: str = "hello") -> str:
    return f"{greeting} {user_id}"


class TestBinding:
    @pytest.mark.parametrize(
        ("args", "kwargs", "bound"),
        [
            ((1,), {}, {"user_id": 1}),
            ((1, "hi"), {}, {"user_id": 1, "greeting": "hi"}),
            ((1,), {"greeting": "hi"}, {"user_id": 1, "greeting": "hi"}),
            ((), {"greeting": "hi", "user_id": 1}, {"user_id": 1, "greeting": "hi"}),
            ((), {"user_id": 1}, {"user_id": 1}),
        ],
    )
    def test_arguments_are_kept_by_name_and_defaults_left_out(
        self, args: tuple[object, ...], kwargs: dict[str, object], bound: dict[str, object]
    ) -> None:
        result = of(welcome).bind(args, kwargs)
        assert list(result.items()) == list(bound.items())

    @pytest.mark.parametrize(
        ("args", "kwargs", "message"),
        [
            ((), {}, "missing a required argument: 'user_id'"),
            ((1, "a", 2), {}, "too many positional arguments"),
            ((1,), {"colour": 2}, "got an unexpected keyword argument 'colour'"),
            ((1,), {"user_id": 2}, "multiple values for argument 'user_id'"),
        ],
    )
    def test_a_call_that_does_not_fit_is_refused_in_words(
        self, args: tuple[object, ...], kwargs: dict[str, object], message: str
    ) -> None:
        with pytest.raises(InvalidArguments) as caught:
            of(welcome).bind(args, kwargs)
        assert str(caught.value) == f"task 'mail': {message}; it takes (user_id, greeting='hello')"

    def test_a_function_without_parameters_takes_nothing(self) -> None:
        def tick() -> None: ...

        assert of(tick).encode((), {}) == "{}"
        with pytest.raises(InvalidArguments, match=r"too many positional arguments; it takes \(\)"):
            of(tick).encode((1,), {})


class TestEveryKindOfParameter:
    def test_positional_only_variadic_and_keyword_only_parameters_arrive_where_they_were_given(self) -> None:
        def every(a: int, b: int = 2, /, c: int = 3, *rest: int, d: int = 4, **more: int) -> object:
            return a, b, c, rest, d, more

        assert run(every, 1) == every(1)
        assert run(every, 1, 20, c=30) == every(1, 20, c=30)
        assert run(every, 1, 20, 30, 40, 50, d=60, e=70) == every(1, 20, 30, 40, 50, d=60, e=70)
        assert run(every, 1, d=5, a=6) == every(1, d=5, a=6)

    def test_variadic_arguments_are_checked_one_by_one(self) -> None:
        def total(*numbers: int, **named: date) -> None: ...

        with pytest.raises(InvalidArguments, match=r"numbers\[1\]: expected int, got str"):
            of(total).encode((1, "2"), {})
        with pytest.raises(InvalidArguments, match=r"named.*: invalid RFC3339"):
            of(total).encode((), {"day": "soon"})

    def test_parameters_may_be_named_like_anything(self) -> None:
        def odd(self: int, args: int, kwargs: int, __struct_fields__: int, rename: int, type: int) -> object:
            return self, args, kwargs, __struct_fields__, rename, type

        assert run(odd, 1, 2, 3, 4, 5, 6) == (1, 2, 3, 4, 5, 6)

    def test_a_payload_that_names_an_argument_twice_is_undecodable(self) -> None:
        def named(a: int, **more: int) -> None: ...

        with pytest.raises(Undecodable, match=r"\['a'\] given twice"):
            of(named).decode('{"a":1,"more":{"a":2}}')

    def test_a_changed_default_applies_to_jobs_that_left_it_out(self) -> None:
        def later(user_id: int, greeting: str = "bonjour", extra: int = 0) -> str:
            return f"{greeting} {user_id}"

        args, kwargs = of(later).decode(of(welcome).encode((7,), {}))
        assert later(*args, **kwargs) == "bonjour 7"

    def test_partials_methods_and_callable_objects_have_signatures_too(self) -> None:
        class Mailer:
            def send(self, to: int) -> int:
                return to

            def __call__(self, to: int) -> int:
                return -to

        assert run(functools.partial(welcome, greeting="hey"), user_id=3) == "hey 3"
        assert run(Mailer().send, 3) == 3
        assert run(Mailer(), 3) == -3
        with pytest.raises(InvalidArguments, match="to: expected int, got str"):
            of(Mailer()).encode(("x",), {})

    def test_a_wrapped_function_keeps_its_own_signature(self) -> None:
        @functools.wraps(welcome)
        def wrapper(*args: Any, **kwargs: Any) -> str:
            return welcome(*args, **kwargs)

        assert run(wrapper, 5) == "hello 5"
        with pytest.raises(InvalidArguments, match="user_id: expected int, got str"):
            of(wrapper).encode(("x",), {})

    def test_a_function_without_a_readable_signature_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="no signature that can be read"):
            of(iter)


class TestTheContext:
    def test_it_is_found_by_its_annotation_only(self) -> None:
        def plain(ctx: int, context: str) -> None: ...
        def marked(anything: Context, n: int) -> None: ...
        def narrower(c: NarrowContext) -> None: ...
        def optional(n: int, c: Optional[SyncContext] = None) -> None: ...  # noqa: UP045
        def either(c: Context | SyncContext | None = None) -> None: ...
        def annotated(c: Annotated[Context, "note"]) -> None: ...
        def listed(c: list[Context]) -> None: ...

        functions = [plain, marked, narrower, optional, either, annotated, listed]
        assert [of(f).context_parameter for f in functions] == [None, "anything", "c", "c", "c", "c", None]

    @pytest.mark.parametrize(
        "text",
        [
            "Context",
            "nowhere.Context",
            "nowhere.deep.SyncContext",
            "nowhere.Context | None",
            "Optional[nowhere.Context]",
            "typing.Annotated[nowhere.Context, 1]",
            "'nowhere.Context'",
        ],
    )
    def test_it_is_found_in_text_that_only_type_checkers_can_resolve(self, text: str) -> None:
        def handler(c, n):  # type: ignore[no-untyped-def]
            ...

        handler.__annotations__ = {"c": text, "n": "nowhere.Number"}
        assert of(handler).context_parameter == "c"

    @pytest.mark.parametrize("text", ["nowhere.ContextManager", "MyContext", "list[nowhere.Context]", "Context.Inner"])
    def test_what_is_only_called_similarly_is_not_a_context(self, text: str) -> None:
        def handler(c):  # type: ignore[no-untyped-def]
            ...

        handler.__annotations__ = {"c": text}
        assert of(handler).context_parameter is None

    def test_it_is_no_argument_and_is_put_in_its_place_at_run(self) -> None:
        def first(ctx: Context, n: int) -> object:
            return ctx, n

        def last(n: int, *, ctx: Context) -> object:
            return ctx, n

        def only_position(n: int, ctx: Context, /, m: int) -> object:
            return ctx, n, m

        def spread(n: int, ctx: Context, *rest: int) -> object:
            return ctx, n, *rest

        def after_rest(*rest: int, ctx: Context) -> object:
            return ctx, *rest

        assert of(first).encode((1,), {}) == '{"n":1}'
        assert run(first, 1) == run(last, 1) == run(spread, 1) == ("the context", 1)
        assert run(only_position, 1, 2) == run(spread, 1, 2) == run(after_rest, 1, 2) == ("the context", 1, 2)

    def test_two_contexts_are_refused(self) -> None:
        def greedy(a: Context, b: SyncContext) -> None: ...

        with pytest.raises(ConfigError, match="two contexts, a and b"):
            of(greedy)

    def test_passing_it_to_enqueue_is_refused(self) -> None:
        def handler(ctx: Context, n: int) -> None: ...

        with pytest.raises(InvalidArguments, match=r"unexpected keyword argument 'ctx'; it takes \(n\)"):
            of(handler).encode((1,), {"ctx": Context()})


class TestTypes:
    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (int, "abc"),
            (int, 1.5),
            (int, True),
            (int, None),
            (str, 1),
            (str, b"x"[0]),
            (bool, 1),
            (float, "1"),
            (bytes, "abcd"),
            (datetime, "2026-01-01T00:00:00Z"),
            (time, "12:00:00"),
            (uuid.UUID, str(uuid.UUID(int=1))),
            (Decimal, "1"),
            (list[int], [1, "2"]),
            (set[int], "12"),
            (dict[str, int], {"a": "b"}),
            (Address, {"street": "a"}),
            (Address, Address("a", "b")),  # type: ignore[arg-type]
            (int | None, "x"),
            (Annotated[int, msgspec.Meta(ge=0)], -1),
            (Order, {"id": "x"}),
        ],
    )
    def test_a_wrong_argument_is_refused_before_anything_is_written(self, annotation: Any, value: object) -> None:
        def handler(ok: int, arg: annotation) -> None: ...

        with pytest.raises(InvalidArguments, match="(?s)task 'mail': arg.*; it takes"):
            of(handler, scope={"annotation": annotation}).encode((1, value), {})

    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (float, 3),
            (int | None, None),
            (Address, Address("Main", 5)),
            (list[Address], [Address("Main", 5)]),
            (Order, Order(id=3)),
            (Order | None, Order(id=3)),
            (set[int], {1, 2}),
            (tuple[int, ...], (1, 2)),
            (datetime, datetime(2026, 1, 1, tzinfo=UTC)),
            (bytes, b"\xff"),
            (Any, {"free": [1, None]}),
            (object, "x"),
        ],
    )
    def test_an_argument_arrives_as_its_annotation_says(self, annotation: Any, value: object) -> None:
        def handler(arg: annotation) -> object:
            return arg

        signature = of(handler, scope={"annotation": annotation})
        args, kwargs = signature.decode(signature.encode((value,), {}))
        back = handler(*args, **kwargs)
        assert back == value
        assert isinstance(back, float if annotation is float else type(value))

    @pytest.mark.parametrize(
        ("annotation", "value", "place"),
        [
            (bytes | None, "abcd", "arg"),
            (list[bytes], [b"x", "abcd"], r"arg\[1\]"),
            (dict[str, bytes | None], {"a": None, "b": "abcd"}, r"arg\.b"),
            (dict[bytes, int], {"abcd": 1}, "arg: the key 'abcd'"),
            (tuple[str, bytes], ("abcd", "abcd"), r"arg\[1\]"),
            (Blob, {"name": "abcd", "data": "abcd"}, r"arg\.data"),
            (int | list[Blob], [Blob("abcd", "abcd")], r"arg\[0\]\.data"),  # type: ignore[arg-type]
            (Annotated[bytes, msgspec.Meta(max_length=9)], "abcd", "arg"),
        ],
    )
    def test_text_where_bytes_are_asked_for_is_refused_because_it_would_be_read_as_base64(
        self, annotation: Any, value: object, place: str
    ) -> None:
        def handler(arg: annotation) -> None: ...

        signature = of(handler, scope={"annotation": annotation})
        with pytest.raises(InvalidArguments, match=f"task 'mail': {place}: expected bytes, got str; it takes"):
            signature.encode((value,), {})

    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (bytes | None, b"abcd"),
            (list[bytes] | dict[str, str], {"a": "abcd"}),
            (tuple[str, bytes], ("abcd", b"abcd")),
            (Sent | Kept, Kept("abcd")),
            (list[Blob], [Blob("abcd", b"abcd")]),
            (time, time(12, tzinfo=UTC)),
        ],
    )
    def test_bytes_and_the_texts_beside_them_arrive(self, annotation: Any, value: object) -> None:
        def handler(arg: annotation) -> object:
            return arg

        signature = of(handler, scope={"annotation": annotation})
        args, kwargs = signature.decode(signature.encode((value,), {}))
        assert handler(*args, **kwargs) == value

    def test_text_read_from_json_may_stand_for_bytes(self) -> None:
        def handler(arg: list[bytes]) -> None: ...

        assert of(handler).accept({"arg": ["YWI="]}) == '{"arg":["YWI="]}'

    @pytest.mark.parametrize("annotation", [Any, dict, dict[str, str], time | Any])
    def test_what_json_would_change_is_refused_whatever_the_annotation_says(self, annotation: Any) -> None:
        def handler(arg: annotation) -> None: ...

        signature = of(handler, scope={"annotation": annotation})
        with pytest.raises(InvalidArguments, match="the payload of task 'mail': arg has two keys that are '1' in JSON"):
            signature.encode(({1: "a", "1": "b"},), {})

    @pytest.mark.parametrize("annotation", [Any, time, time | None])
    def test_a_time_whose_zone_would_be_lost_is_refused(self, annotation: Any) -> None:
        def handler(arg: annotation) -> None: ...

        with pytest.raises(InvalidArguments, match="arg is .* depends on the day"):
            of(handler, scope={"annotation": annotation}).encode((time(12, tzinfo=ZoneInfo("Europe/Paris")),), {})

    def test_the_right_dict_may_stand_for_a_dataclass(self) -> None:
        def handler(a: Address) -> Address:
            return a

        assert run(handler, {"street": "Main", "number": 5}) == Address("Main", 5)

    def test_what_has_no_annotation_or_an_unresolvable_one_takes_any_json(self) -> None:
        def loose(a, b: nowhere.Type, c: T, d: Optional[nowhere.Type] = None):  # type: ignore[no-untyped-def]  # noqa: UP045
            return a, b, c, d

        assert run(loose, 1, {"x": 2}, [3], "4") == (1, {"x": 2}, [3], "4")

    def test_annotations_may_name_what_is_local_to_the_caller(self) -> None:
        @dataclass
        class Local:
            n: int

        def by_closure(arg: Local) -> int:
            return arg.n + Local(1).n

        def by_scope(arg: Local) -> int:
            return arg.n

        assert run(by_closure, Local(2)) == 3
        args, kwargs = of(by_scope, scope=locals()).decode('{"arg":{"n":4}}')
        assert by_scope(*args, **kwargs) == 4

    def test_an_annotation_that_json_cannot_tell_apart_is_refused_at_registration(self) -> None:
        def ambiguous(when: datetime | str) -> None: ...

        with pytest.raises(ConfigError, match="task 'mail': the annotation of when cannot be read from JSON"):
            of(ambiguous)

    def test_an_unencodable_argument_is_named(self) -> None:
        with pytest.raises(InvalidArguments, match=r"the payload of task 'mail': user_id \(object\) cannot be written"):
            of(welcome).encode((object(),), {})

    def test_the_size_limit_is_the_signatures_own(self) -> None:
        with pytest.raises(PayloadTooLarge, match="the payload of task 'mail' takes"):
            of(welcome, limit=20).encode((1, "a long greeting"), {})


class TestReading:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "truncated"),
            ("{nonsense", "malformed"),
            ("[]", "expected object, got array"),
            ("{}", "missing required field user_id"),
            ('{"user_id":"x"}', "user_id: expected int, got str"),
            ('{"user_id":1,"left_over":2}', "unknown field left_over"),
        ],
    )
    def test_a_corrupt_or_outdated_payload_is_undecodable(self, text: str, message: str) -> None:
        with pytest.raises(Undecodable, match=f"the payload of task 'mail': .*{message}") as caught:
            of(welcome).decode(text)
        assert caught.value.code == "undecodable"

    def test_a_task_that_is_implemented_elsewhere_takes_anything_by_name(self) -> None:
        elsewhere = of(None)
        text = elsewhere.encode((), {"user_id": 1, "greeting": "hi"})
        assert text == '{"user_id":1,"greeting":"hi"}' == of(welcome).encode((1, "hi"), {})
        assert elsewhere.decode(text) == ([], {"user_id": 1, "greeting": "hi"})
        with pytest.raises(InvalidArguments, match="pass its arguments by name"):
            elsewhere.encode((1,), {})


class TestResults:
    def test_a_result_comes_back_as_the_return_annotation_says(self) -> None:
        def find() -> Address | None: ...

        signature = of(find)
        assert signature.decode_result(signature.encode_result(Address("Main", 5))) == Address("Main", 5)
        assert signature.encode_result(None) == "null"
        assert signature.decode_result("null") is None

    def test_a_result_without_a_usable_annotation_comes_back_as_json(self) -> None:
        def unknown():  # type: ignore[no-untyped-def]
            ...

        def ambiguous() -> datetime | str: ...
        def unresolved() -> nowhere.Type: ...

        for function in (unknown, ambiguous, unresolved):
            assert of(function).decode_result('{"a":[1]}') == {"a": [1]}

    def test_a_result_that_cannot_be_stored_is_refused(self) -> None:
        with pytest.raises(
            InvalidArguments, match=r"the result of task 'mail': the value \(object\) cannot be written"
        ):
            of(welcome).encode_result(object())
        with pytest.raises(PayloadTooLarge, match="the result of task 'mail'"):
            of(welcome, limit=10).encode_result("x" * 20)

    def test_a_stored_result_of_another_type_is_undecodable(self) -> None:
        with pytest.raises(Undecodable, match="the result of task 'mail': expected str, got int"):
            of(welcome).decode_result("3")


text = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.integers(), st.lists(text), st.dictionaries(text, st.integers()), st.booleans())
def test_any_call_that_fits_arrives_as_it_was_made(
    a: int, rest: list[str], more: dict[str, int], by_name: bool
) -> None:
    def every(a: int, *rest: str, **more: int) -> object:
        return a, list(rest), more

    more.pop("a", None)
    if by_name and not rest:
        assert run(every, a=a, **more) == every(a=a, **more)
    else:
        assert run(every, a, *rest, **more) == every(a, *rest, **more)
