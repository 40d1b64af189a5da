"""The body of a request: from bytes to statements."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple, NoReturn

import orjson

from .parameters import BadRequest, Parameter, parameter

MAX_STATEMENTS = 100_000
_SURROGATE = re.compile("[\ud800-\udfff]")
_BLANKS = " \t\r\n"


class Statement(NamedTuple):
    """One statement of a request and its parameters."""

    text: str
    parameters: list[Parameter]


def parse(body: bytes) -> list[Statement]:
    """The statements of a JSON body.

    Raises:
        BadRequest: in the server's words.
    """
    found = _load(body)
    if not isinstance(found, list):
        raise BadRequest("invalid request")
    if not found:
        raise BadRequest("no statements")
    if len(found) > MAX_STATEMENTS:
        raise BadRequest(f"{len(found)} statements: the dev server takes {MAX_STATEMENTS} in a request")
    return [_statement(item) for item in found]


def _load(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return _load_leniently(body)


def _load_leniently(body: bytes) -> Any:
    """What the server takes and orjson does not: bytes behind the end, bad UTF-8, lone surrogates."""
    text = body.decode("utf-8", "replace").lstrip(_BLANKS)
    try:
        found, _ = json.JSONDecoder(parse_constant=_refuse, parse_float=_float).raw_decode(text)
        return _mended(found)
    except (ValueError, RecursionError):
        raise BadRequest("invalid JSON body") from None


def _refuse(token: str) -> NoReturn:
    raise ValueError(token)


def _float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise BadRequest(f"invalid number {text}")
    return value


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return value


def _statement(item: Any) -> Statement:
    if isinstance(item, str):
        return Statement(item, [])
    if not isinstance(item, list) or not item or not isinstance(item[0], str):
        raise BadRequest("invalid request")
    given: list[Parameter] = []
    for value in item[1:]:
        if isinstance(value, dict):
            given += [parameter(name, inner) for name, inner in value.items()]
        else:
            given.append(parameter("", value))
    return Statement(item[0], given)
