"""Claimed rows that are read straight from a reply are those that the JSON parser finds."""

from __future__ import annotations

import contextlib
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from rqfast._core import Lease, decode_reply, slot_rows
from rqfast.errors import GarbledReply

integers = st.integers(-(1 << 64), 1 << 64) | st.integers(0, 9)
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.floats(1.7e9, 1.8e9) | st.integers(-5, 1 << 40)
texts = st.text(max_size=12) | st.just('{"a":"b\\"c\\\\","d":"\\u00e9\\n"}') | st.just('"values":[[1,')
rows = st.lists(
    st.tuples(
        st.integers(-(1 << 63), (1 << 63) - 1),
        texts,
        texts,
        st.integers(0, 9),
        st.integers(-3, 3),
        st.none() | texts,
        st.none() | numbers,
        numbers,
        st.none() | st.integers(0, 4),
        st.none() | st.integers(0, 1 << 60),
    ),
    max_size=4,
)


def fields(row: Any) -> list[Any]:
    """What a row says, whether it is a lease already or a list."""
    if isinstance(row, Lease):
        headers = orjson.dumps(row.headers).decode() if row.headers else None
        return [row.seq, row.group_id, row.raw, row.attempts, row.rank, headers, row.published_at, row.expires_at,
                row.priority, row.fence]  # fmt: skip
    known = [*row[:5], None, row[6], float(row[7]), row[8] or 0, row[9] or 0]
    known[5] = orjson.dumps(orjson.loads(row[5])).decode() if row[5] and orjson.loads(row[5]) else None
    return known


headers = st.none() | st.dictionaries(texts, st.integers(0, 9), max_size=2).map(lambda one: orjson.dumps(one).decode())


@given(st.lists(rows, min_size=1, max_size=3), headers)
def test_both_ways_find_the_same(slots: list[list[Any]], header: str | None) -> None:
    made = [[[*row[:5], header, *row[6:]] for row in slot] for slot in slots]
    body = orjson.dumps({"results": [{"columns": ["values"], "values": slot} for slot in made]})
    short, error = decode_reply(body, True)
    plain, _ = decode_reply(body)
    assert error is None
    found = [[fields(row) for row in slot] for slot in slot_rows(short)]
    assert found == [[fields(row) for row in slot] for slot in slot_rows(plain)]


@given(st.binary(max_size=40), st.integers(0, 200), rows)
def test_a_garbled_reply_is_refused_or_left_to_the_parser(noise: bytes, at: int, slot: list[Any]) -> None:
    body = bytearray(orjson.dumps({"results": [{"values": slot}]}))
    body[at : at + len(noise)] = noise
    for reply in (bytes(body), bytes(body[:at])):
        with contextlib.suppress(GarbledReply):
            decode_reply(reply, True)
