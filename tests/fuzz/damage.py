"""Replies of a server, damaged so that they cannot be taken for an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.proxy import Change

# None of these can stand where a server puts a number or a text.
WRONG: list[Any] = [True, {}, [[]], {"a": [1]}, [[[[[[[[0]]]]]]]], 10**400, -(10**40), "no"]
RAW = [
    b"", b"null", b"[]", b"{}", b'"text"', b"{", b"<html>busy</html>", b'{"results":null}', b'{"results":{}}',
    b'{"results":[]}', b'{"results":[null]}', b'{"results":[[]]}', b'{"results":[{"values":7}]}', b"[" * 20_000,
    b'{"results":' * 20_000, b'{"results":[' + b"[" * 5000 + b"]" * 5000 + b"]}", b"\x00" * 64, b"\xff\xfe" * 40,
    b'{"results":[{"values":[[1e999]]}]}', b'{"results":[{"columns":["x"],"values":[[NaN]]}]}',
]  # fmt: skip


def _with_results(change: Callable[[list[Any]], Any]) -> Change:
    """Change the results of a reply, where it has some."""

    def damage(body: bytes) -> bytes:
        try:
            reply = json.loads(body)
            reply["results"] = change(list(reply["results"]))
        except (ValueError, KeyError, TypeError):
            return b"?" + body
        return json.dumps(reply).encode()

    return damage


def _truncated(share: float) -> Change:
    return lambda body: body[: int(len(body) * share)]


def _left_out(at: int) -> Change:
    return _with_results(lambda results: [one for place, one in enumerate(results) if place != at % len(results)])


def _more(at: int) -> Change:
    return _with_results(lambda results: [*results, results[at % len(results)]])


def _spoilt(at: int, value: Any) -> Change:
    """One of the results has rows of another kind."""

    def change(results: list[Any]) -> list[Any]:
        with_rows = [place for place, one in enumerate(results) if one.get("values")] or [0]
        place = with_rows[at % len(with_rows)]
        results[place] = results[place] | {"values": [[value]] if at % 2 else value}
        return results

    return _with_results(change)


places = st.integers(0, 40)
damages: st.SearchStrategy[Change] = st.one_of(
    st.sampled_from(RAW).map(lambda raw: lambda body: raw),
    st.floats(0, 0.99).map(_truncated),
    places.map(_left_out),
    places.map(_more),
    st.builds(_spoilt, places, st.sampled_from(WRONG)),
    st.binary(max_size=60).map(lambda raw: lambda body: raw),
)
