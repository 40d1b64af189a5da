"""Anything as a URL, a group, headers, an event or a line: refused with an error of ours, or kept as it is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import rqfast
from rqfast import ConfigError, InvalidMessage, RqfastError
from tests.fuzz.test_replies import FUZZ

REFUSED = (InvalidMessage, ConfigError, TypeError)

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.text(st.characters(categories=["Cs", "Cc", "Lu"]), max_size=6)
    | st.binary(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3) | inner.map(str)
    ),
    max_leaves=6,
)
ids = (
    st.text(max_size=12)
    | st.text("a\x00\ud800é'\";%\n", max_size=4)
    | st.integers(1000, 1030).map("é".__mul__)
    | anything
)


@pytest.fixture(scope="module")
def queue() -> Iterator[rqfast.Transport[Any]]:
    """A queue in memory."""
    with rqfast.connect(":memory:") as queue:
        yield queue


PIECES = [
    "http://", "https://", "rqlite://", "rqlites://", "sqlite://", "sqlite:///", "ftp://", "http:", "user", ":", "@",
    "/", "?", "#", "[::1]", "[", "]", "%", "%zz", "%00", ",", " ", "\x00", "\ud800", "4001", "99999", "-1", "host",
    "\u2100", "\n", "..",
]  # fmt: skip
urls = st.lists(st.sampled_from(PIECES), max_size=8).map("".join) | st.text(max_size=20) | anything


@settings(FUZZ, max_examples=400)
@given(urls)
@example("http://[::1")
@example("sqlite:///\x00")
@example("http://host:\u0661")
def test_a_url_is_refused_or_names_a_place(url: Any) -> None:
    if url is None:
        return
    try:
        made = rqfast.AsyncRqliteTransport(url)  # connects when it is entered
    except (ConfigError, TypeError):
        return
    assert isinstance(url, str) and url.partition("://")[0].lower() in ("http", "https", "rqlite", "rqlites")
    assert "@" not in repr(made)


@settings(FUZZ, max_examples=150)
@given(urls)
@example("a\x00b")
@example("x" * 5000)
def test_a_queue_that_is_not_there_is_not_made(tmp_path: Path, url: Any) -> None:
    if isinstance(url, str) and (url.partition("://")[0].lower() in ("http", "https", "rqlite", "rqlites") or not url):
        return
    if url is None or (isinstance(url, str) and ":memory:" in url):
        return
    where = str(tmp_path / "no" / url) if isinstance(url, str) and "://" not in url and "\x00" not in url else url
    with pytest.raises((RqfastError, TypeError)):
        rqfast.connect(where, create=False)
    assert list(tmp_path.iterdir()) == []


USED: set[str] = set()
headers = st.dictionaries(
    st.text(max_size=5) | anything.filter(lambda key: not isinstance(key, (list, dict))), anything, max_size=3
)


@settings(FUZZ, max_examples=300)
@given(ids, anything, st.none() | headers | anything, st.integers(-3, 6) | anything, st.none() | ids)
def test_a_message_is_refused_or_kept_as_it_is(
    queue: rqfast.Transport[Any], group: Any, event: Any, given_headers: Any, rank: Any, dedup_id: Any
) -> None:
    if isinstance(dedup_id, str) and dedup_id in USED:
        return  # that of an example before counts
    try:
        seq = queue.publish(group, event, rank=rank, headers=given_headers, dedup_id=dedup_id)
    except REFUSED:
        assert queue.stats().messages == 0
        return
    [kept] = queue.peek(group, 10)
    assert (kept.seq, kept.group_id, kept.rank) == (seq, group, rank)
    assert same(kept.event, orjson.loads(event) if isinstance(event, bytes) else event)
    assert kept.headers == (given_headers or {})
    assert queue.delete(seq)
    if dedup_id is not None:
        USED.add(dedup_id)
        assert queue.publish("other", 1, dedup_id=dedup_id) == seq


def same(kept: Any, event: Any) -> bool:
    """Equal, but for what JSON has no word for: NaN and infinities are written as null."""
    if isinstance(event, float) and not math.isfinite(event):
        return kept is None
    if isinstance(event, list):
        return len(kept) == len(event) and all(map(same, kept, event))
    if isinstance(event, dict):
        return kept.keys() == event.keys() and all(same(kept[key], event[key]) for key in event)
    return bool(kept == event)


SETTLED = [
    lambda queue, lease, value: queue.nack(lease, value),
    lambda queue, lease, value: queue.defer(lease, value),
    lambda queue, lease, value: queue.extend(lease, value),
    lambda queue, lease, value: queue.dead_letter(lease, value),
    lambda queue, lease, value: queue.claim(value, 10),
    lambda queue, lease, value: queue.claim("w", value),
    lambda queue, lease, value: queue.claim_many("w", 10, value),
    lambda queue, lease, value: queue.claim_many("w", 10, 1, value),
    lambda queue, lease, value: queue.claim("w", 10, ack=value),
    lambda queue, lease, value: queue.ack(value),
    lambda queue, lease, value: queue.ack_many(value),
    lambda queue, lease, value: queue.publish("a", 1, delay=value),
    lambda queue, lease, value: queue.publish_many(value),
    lambda queue, lease, value: queue.ack(lease, publish=value),
    lambda queue, lease, value: queue.peek("a", value),
    lambda queue, lease, value: queue.groups(after=value),
    lambda queue, lease, value: queue.redrive(seqs=value),
    lambda queue, lease, value: queue.delete(value),
]


@settings(FUZZ, max_examples=300)
@given(st.sampled_from(SETTLED), anything)
def test_any_argument_is_refused_or_taken(call: Any, value: Any) -> None:
    with rqfast.connect(":memory:") as queue:
        queue.publish("a", 1)
        lease = queue.claim("w", 10)
        try:
            call(queue, lease, value)
        except (*REFUSED, rqfast.PublishIncomplete):
            assert queue.stats().in_work == 1
        queue.publish("b", 1)


lines = st.one_of(
    st.binary(max_size=30),
    st.dictionaries(
        st.sampled_from(["group_id", "event", "rank", "delay", "headers", "dedup_id", "priority", "x"]),
        anything,
        max_size=5,
    ).map(lambda found: orjson.dumps(found, default=str, option=orjson.OPT_NON_STR_KEYS) if _writable(found) else b"?"),
    st.builds(
        lambda event: orjson.dumps({"group_id": "g", "event": event}), st.integers(0, 9) | st.text("ab", max_size=3)
    ),
    st.sampled_from([b"", b"  ", b"{", b"[]", b"null", b"[" * 5000, b'{"group_id":"g","event":1e999}', b"\xff"]),
)


def _writable(value: Any) -> bool:
    try:
        orjson.dumps(value, default=str)
    except TypeError:
        return False
    return True


@settings(FUZZ, max_examples=200)
@given(st.lists(lines, max_size=5))
def test_lines_are_published_up_to_the_first_that_is_none(given_lines: list[bytes]) -> None:
    lines = pytest.importorskip("rqfast.cli.lines")
    text = [(number, line) for number, line in enumerate(given_lines, 1) if line.strip()]
    messages, fault = lines.parse(lines.Shape(), text)
    with rqfast.connect(":memory:") as queue:
        try:
            count = len(queue.publish_many(messages))
        except rqfast.PublishIncomplete as stopped:
            in_queue = stopped.index if isinstance(stopped.__cause__, (InvalidMessage, TypeError)) else None
            assert queue.stats().messages == in_queue and stopped.unknown == 0  # noqa: PT017
        else:
            assert count == queue.stats().messages == len(messages)
            assert (fault is None) is (len(messages) == len(text))
