"""JSON of replies, byte for byte as the server writes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from .results import Answer, Counts, Failed, Result, Rows
from .values import encoded, number

_ESCAPED = {
    b"<": rb"\u003c",
    b">": rb"\u003e",
    b"&": rb"\u0026",
    "\u2028".encode(): rb"\u2028",
    "\u2029".encode(): rb"\u2029",
}


def render(answer: Answer, *, associative: bool, blob_array: bool, timings: bool, raft_index: bool) -> dict[str, Any]:
    """The JSON object of an answer.

    Raises:
        NotJson: a value that JSON cannot hold.
    """
    body: dict[str, Any] = {"results": [_result(one, associative, blob_array, timings) for one in answer.results]}
    if answer.error:
        body["error"] = answer.error
    if timings:
        body["time"] = seconds(answer.seconds)
    if answer.sequence:
        body["sequence_number"] = answer.sequence
    if raft_index and answer.index:
        body["raft_index"] = answer.index
    return body


def dump(body: Any, pretty: bool = False) -> bytes:
    """JSON as bytes, with the characters escaped that the server escapes."""
    text = orjson.dumps(body)
    if pretty:
        text = json.dumps(json.loads(text), indent=4, ensure_ascii=False).encode()
    for plain, escaped in _ESCAPED.items():
        text = text.replace(plain, escaped)
    return text


def seconds(value: float) -> Any:
    """A time as the server writes it."""
    return orjson.Fragment(number(round(value, 9)))


def _result(one: Result, associative: bool, blob_array: bool, timings: bool) -> dict[str, Any]:
    if isinstance(one, Failed):
        return {"error": one.error}
    body = _counts(one, associative) if isinstance(one, Counts) else _rows(one, associative, blob_array)
    if timings and one.seconds:
        at_end = body.pop("rows", ...) if isinstance(one, Counts) else ...
        body["time"] = seconds(one.seconds)
        if at_end is not ...:
            body["rows"] = at_end
    return body


def _counts(one: Counts, associative: bool) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if one.last_insert_id:
        body["last_insert_id"] = one.last_insert_id
    if one.rows_affected:
        body["rows_affected"] = one.rows_affected
    if associative:
        body["rows"] = None
    return body


def _rows(one: Rows, associative: bool, blob_array: bool) -> dict[str, Any]:
    values = [
        [encoded(value, kind, blob_array) for value, kind in zip(row, one.types, strict=True)] for row in one.rows
    ]
    body: dict[str, Any] = {}
    if associative:
        if one.columns:
            body["types"] = _by_name(one.columns, one.types)
        body["rows"] = [_by_name(one.columns, row) for row in values]
    elif one.columns:
        body |= {"columns": one.columns, "types": one.types}
        if values:
            body["values"] = values
    if one.error:
        body["error"] = one.error
    return body


def _by_name(columns: list[str], values: list[Any]) -> Mapping[str, Any]:
    named = dict(zip(columns, values, strict=True))
    return {name: named[name] for name in sorted(named)}
