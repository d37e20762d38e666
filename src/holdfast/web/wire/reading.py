"""Parses requests into the types that their operations name. Errors name the field."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin
from urllib.parse import parse_qsl, unquote

import msgspec
from starlette.requests import Request

from ...rules.enums import allowed_values
from .failures import Refused
from .operation import Operation

_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_MOST_FIELDS: Final = 1_000
_LONGEST_LENGTH: Final = 20
_LARGE: Final = 64 * 1024
"""Bytes of a body that is checked off the event loop."""


async def read_arguments(operation: Operation, request: Request, values: list[str], limit: int, seconds: float) -> Any:
    """Return the keyword arguments of an operation's handler."""
    given: dict[str, Any] = {}
    for (name, type_), value in zip(operation.places, values, strict=True):
        given[name] = _place(name, type_, value)
    if operation.query is not None:
        given["query"] = read_query(operation.query, request.scope["query_string"])
    elif operation.kind == "api" and request.scope["query_string"]:
        names = ", ".join(repr(name) for name, _ in _pairs(request.scope["query_string"]))
        raise Refused(400, "invalid", f"this operation takes no query, but was given {names}")
    if operation.body is not None:
        given["body"] = await _body(operation.body, request, limit, seconds)
    elif operation.form is not None:
        given["form"] = await _form(operation.form, request, limit, seconds)
    return given


def read_query(type_: Any, query: bytes) -> Any:
    """Parse a query into a Struct: list fields take every value of their name, others exactly one."""
    return _fields(type_, _pairs(query), "the query")


def _place(name: str, type_: Any, value: str) -> Any:
    try:
        return msgspec.convert(unquote(value, errors="strict"), type_, strict=False)
    except (msgspec.ValidationError, UnicodeDecodeError) as wrong:
        raise Refused(400, "invalid", f"{name} in the path: {wrong}{allowed_values(type_, str(wrong))}") from wrong


async def _body(type_: Any, request: Request, limit: int, seconds: float) -> Any:
    _check_type(request, _JSON)
    data = await read_body(request, limit, seconds)
    if not data.strip():
        raise Refused(400, "invalid", "the body is empty; send a JSON object, {} at least")
    try:
        given = _decoder(type_).decode(data)
        await _refuse_duplicates(data)
        return given
    except (msgspec.MsgspecError, ValueError, RecursionError) as wrong:
        if "got `float`" in str(wrong):
            whole = _with_whole_numbers(type_, data)
            await _refuse_duplicates(data)
            return whole
        known = "" if " - at " in str(wrong) else _known(type_, str(wrong))
        raise Refused(400, "invalid", f"the body: {wrong}{known}{allowed_values(type_, str(wrong))}") from wrong


async def _refuse_duplicates(data: bytes) -> None:
    """Refuse an object with the same key twice: another reader of the same bytes may take the other value."""
    if len(data) > _LARGE:
        await asyncio.to_thread(_walk, data)
    else:
        _walk(data)


def _walk(data: bytes) -> None:
    # Numbers are not needed, and one of many digits could take long.
    json.loads(data, object_pairs_hook=_distinct, parse_int=len, parse_float=len, parse_constant=len)


def _distinct(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise Refused(400, "invalid", f"the body: an object has the key {twice[:64]!r} twice; give it once")


def _with_whole_numbers(type_: Any, data: bytes) -> Any:
    """Parse again with 2.0 as 2: the document says integer, and in JSON the two are one number."""
    try:
        return msgspec.convert(_whole(msgspec.json.decode(data)), type_)
    except (msgspec.MsgspecError, ValueError, RecursionError) as wrong:
        raise Refused(400, "invalid", f"the body: {wrong}") from wrong


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


async def _form(type_: Any, request: Request, limit: int, seconds: float) -> Any:
    _check_type(request, _FORM)
    return _fields(type_, _pairs(await read_body(request, limit, seconds)), "the form")


async def read_body(request: Request, limit: int, seconds: float) -> bytes:
    """Read the whole body, if it is not too large and arrives in time."""
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and len(length) <= _LONGEST_LENGTH and int(length) > limit:
        raise Refused(413, "too_large", f"the body has {int(length):,} bytes; at most {limit:,} are allowed")
    try:
        async with asyncio.timeout(seconds):
            return await _collect(request, limit)
    except TimeoutError:
        raise Refused(408, "timeout", f"the body did not arrive within {seconds:g} s") from None


async def _collect(request: Request, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise Refused(413, "too_large", f"the body is larger than the allowed {limit:,} bytes")
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _check_type(request: Request, wanted: str) -> None:
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != wanted:
        message = (
            f"the body must be {wanted}, {f'not {given}' if given else 'and no content-type was sent'};"
            f" send the header content-type: {wanted}"
        )
        least = ", and a body, {} at least" if wanted == _JSON else ""
        raise Refused(415, "unsupported_media_type", message + least)


def _pairs(text: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError as wrong:
        raise Refused(400, "invalid", f"invalid query or form: {wrong}") from wrong


def _fields(type_: Any, pairs: list[tuple[str, str]], what: str) -> Any:
    many, typed = _lists_of(type_), _typed(type_)
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in typed and _is_no_text_of(value, typed[name]):
            raise Refused(400, "invalid", f"{what}: {name} is {value[:64]!r}, which is not of its type")
        if name in many:
            found.setdefault(name, []).append(value)
        elif name in found:
            raise Refused(400, "invalid", f"{what} gives {name} twice; give it once")
        else:
            found[name] = value
    try:
        return msgspec.convert(found, type_, strict=False)
    except msgspec.ValidationError as wrong:
        raise Refused(
            400, "invalid", f"{what}: {wrong}{_known(type_, str(wrong))}{allowed_values(type_, str(wrong))}"
        ) from wrong


def _known(type_: Any, wrong: str) -> str:
    if "unknown field" not in wrong or not (isinstance(type_, type) and issubclass(type_, msgspec.Struct)):
        return ""
    return "; known are " + ", ".join(field.encode_name for field in msgspec.structs.fields(type_))


@lru_cache(maxsize=512)
def _lists_of(type_: Any) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(type_) if _is_list(field.type))


@lru_cache(maxsize=512)
def _typed(type_: Any) -> dict[str, frozenset[Any]]:
    """Return the fields that are not free text, with their types."""
    parts = {field.encode_name: frozenset(_parts(field.type)) for field in msgspec.structs.fields(type_)}
    return {name: found for name, found in parts.items() if str not in found}


def _parts(type_: Any) -> Iterator[Any]:
    origin = get_origin(type_)
    if origin is Annotated:
        yield from _parts(get_args(type_)[0])
    elif origin in (list, tuple, frozenset, set, Union, UnionType):
        for part in get_args(type_):
            yield from _parts(part)
    else:
        yield type_


def _is_no_text_of(value: str, parts: frozenset[Any]) -> bool:
    """Return True for a text that would be parsed as null, a non-number or a time in seconds: a query has none of
    these.
    """
    if value.lower() in ("null", "nan", "inf", "-inf", "infinity", "-infinity"):
        return True
    return datetime in parts and value.lstrip("+-")[:5].count("-") == 0


def _is_list(type_: Any) -> bool:
    origin = get_origin(type_)
    if origin in (list, tuple, frozenset, set):
        return True
    return origin is not None and any(_is_list(part) for part in get_args(type_))


@lru_cache(maxsize=512)
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_)
