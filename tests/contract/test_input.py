"""Bad input is refused before anything is sent, alike on every engine, and fails nobody else (rule 12)."""

import math
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from rqfast import ConfigError, InvalidMessage, Message, PublishIncomplete
from rqfast import Lease as MadeLease
from tests.contract.views import Lease, Queue, Row, View, open_address

Call = Callable[[View, Lease, Any], object]

NOT_DURATIONS: list[Any] = [
    -1,
    -1e-9,
    math.nan,
    math.inf,
    -math.inf,
    timedelta(seconds=-1),
    "5",
    b"5",
    [5],
    10**400,
]
NOT_NAMES: list[Any] = ["", "x" * 1025, "\u00e9" * 513, "a\ud800", 1, b"g", ["g"]]
NOT_INTS: list[Any] = [2**63, -(2**63) - 1, 10**400, 1.0, math.nan, "1", None]
NOT_PRIORITIES: list[Any] = [*NOT_INTS, -1, 5]
NOT_HEADERS: list[Any] = [
    ["a"],
    "a",
    1,
    {"a": "x" * 65_536},
    {"a": "\ud800"},
    {"\ud800": "a"},
    {"a": object()},
]
NOT_A_LEASE: list[Any] = [None, "a", 1, (1, "g", 1, "t")]
NOT_LEASES: list[Any] = [None, 1, ["a"], [None], [1]]

# The argument by its name, the call, and what must be refused there.
CALLS: dict[str, tuple[str, list[Any], Call]] = {
    "publish group_id": ("group_id", [*NOT_NAMES, None], lambda v, _, bad: v.publish(bad, 1)),
    "publish priority": ("priority", NOT_PRIORITIES, lambda v, _, bad: v.publish("g", 1, bad)),
    "publish delay": ("delay", [*NOT_DURATIONS, None], lambda v, _, bad: v.publish("g", 1, delay=bad)),
    "publish rank": ("rank", NOT_INTS, lambda v, _, bad: v.publish("g", 1, rank=bad)),
    "publish headers": ("header", NOT_HEADERS, lambda v, _, bad: v.publish("g", 1, headers=bad)),
    "publish dedup_id": ("dedup_id", NOT_NAMES, lambda v, _, bad: v.publish("g", 1, dedup_id=bad)),
    "claim worker_id": ("worker_id", NOT_NAMES, lambda v, _, bad: v.claim(bad)),
    "claim visibility": ("visibility", [*NOT_DURATIONS, 0, 0.0, None], lambda v, _, bad: v.claim("w", bad)),
    "claim min_priority": ("min_priority", NOT_PRIORITIES, lambda v, _, bad: v.claim("w", 30, bad)),
    "claim wait": ("wait", NOT_DURATIONS, lambda v, _, bad: v.claim("w", wait=bad)),
    "claim ack": ("lease", NOT_A_LEASE[1:], lambda v, _, bad: v.claim("w", ack=bad)),
    "claim_many worker_id": ("worker_id", NOT_NAMES, lambda v, _, bad: v.claim_many(bad, 30, 1)),
    "claim_many visibility": ("visibility", [*NOT_DURATIONS, 0], lambda v, _, bad: v.claim_many("w", bad, 1)),
    "claim_many limit": ("limit", [*NOT_INTS, -1, 0], lambda v, _, bad: v.claim_many("w", 30, bad)),
    "claim_many min_priority": (
        "min_priority",
        NOT_PRIORITIES,
        lambda v, _, bad: v.claim_many("w", 30, 1, bad),
    ),
    "claim_many wait": ("wait", NOT_DURATIONS, lambda v, _, bad: v.claim_many("w", 30, 1, wait=bad)),
    "claim_many ack": ("ack", NOT_LEASES[1:], lambda v, _, bad: v.claim_many("w", 30, 1, ack=bad)),
    "ack lease": ("lease", NOT_A_LEASE, lambda v, _, bad: v.ack(bad)),
    "nack lease": ("lease", NOT_A_LEASE, lambda v, _, bad: v.nack(bad)),
    "defer lease": ("lease", NOT_A_LEASE, lambda v, _, bad: v.defer(bad, 1)),
    "extend lease": ("lease", NOT_A_LEASE, lambda v, _, bad: v.extend(bad, 1)),
    "dead_letter lease": ("lease", NOT_A_LEASE, lambda v, _, bad: v.dead_letter(bad, "why")),
    "ack_many leases": ("lease", NOT_LEASES, lambda v, _, bad: v.ack_many(bad)),
    "nack_many leases": ("lease", NOT_LEASES, lambda v, _, bad: v.nack_many(bad)),
    "defer_many leases": ("lease", NOT_LEASES, lambda v, _, bad: v.defer_many(bad, 1)),
    "extend_many leases": ("lease", NOT_LEASES, lambda v, _, bad: v.extend_many(bad, 1)),
    "dead_letter_many leases": ("lease", NOT_LEASES, lambda v, _, bad: v.dead_letter_many(bad, "why")),
    "nack delay": ("delay", [*NOT_DURATIONS, None], lambda v, lease, bad: v.nack(lease, bad)),
    "nack_many delay": ("delay", NOT_DURATIONS, lambda v, lease, bad: v.nack_many([lease], bad)),
    "defer delay": ("delay", [*NOT_DURATIONS, None], lambda v, lease, bad: v.defer(lease, bad)),
    "defer_many delay": ("delay", NOT_DURATIONS, lambda v, lease, bad: v.defer_many([lease], bad)),
    "extend visibility": (
        "visibility",
        [*NOT_DURATIONS, 0, None],
        lambda v, lease, bad: v.extend(lease, bad),
    ),
    "extend_many visibility": (
        "visibility",
        [*NOT_DURATIONS, 0],
        lambda v, lease, bad: v.extend_many([lease], bad),
    ),
    "dead_letter reason": ("reason", [1, b"a", None], lambda v, lease, bad: v.dead_letter(lease, bad)),
    "ack of a seq too large": (
        "seq",
        [2**63, -(2**63) - 1, "1", 1.5],
        lambda v, lease, bad: v.ack(MadeLease(bad, "g", 1, lease.token)),
    ),
}


def stored(q: Queue) -> list[Row]:
    """All messages, the seq first."""
    return q.sql(f"SELECT seq, * FROM {q.table('messages')} ORDER BY seq")


@pytest.mark.parametrize("what", CALLS)
def test_a_bad_argument_is_refused_before_anything_is_sent(q: Queue, what: str) -> None:
    argument, bads, call = CALLS[what]
    view = q.open()
    view.publish("held", 1)
    view.publish("free", 2)
    lease = view.claim("w", 600)
    assert lease is not None
    rows, entries = stored(q), q.entries()
    wrong = []
    for bad in bads:
        try:
            wrong.append(f"{bad!r:.40} was taken: {call(view, lease, bad)!r:.80}")
        except (TypeError, InvalidMessage) as error:
            told = error.argument if isinstance(error, InvalidMessage) else str(error)
            if argument not in told:
                wrong.append(f"{bad!r:.40} does not name {argument}: {error!r:.80}")
        except Exception as error:
            wrong.append(f"{bad!r:.40} raised {error!r:.120}")
    assert not wrong, "\n".join(wrong)
    assert q.entries() == entries, "something was sent"
    assert stored(q) == rows
    view.ack(lease)


BAD_ITEMS: dict[str, Callable[[], object]] = {
    "group_id": lambda: ("", 1),
    "event": lambda: ("g", b"{"),
    "an event of no kind": lambda: ("g", object()),
    "priority": lambda: ("g", 1, 7),
    "delay": lambda: Message("g", 1, delay=math.nan),
    "rank": lambda: Message("g", 1, rank=2**63),
    "headers": lambda: Message("g", 1, headers={"a": "x" * 65_536}),
    "dedup_id": lambda: Message("g", 1, dedup_id=""),
    "too short": lambda: ("g",),
    "too long": lambda: ("g", 1, 0, 0),
    "no message": lambda: 7,
    "text": lambda: "ab",
    "None": lambda: None,
}


@pytest.mark.parametrize("what", BAD_ITEMS)
def test_a_bad_item_stops_publish_many_and_is_named(q: Queue, what: str) -> None:
    """A `Message` may refuse its fields when it is made: that happens in the caller's iterable."""

    def items() -> Iterator[Any]:
        yield ("g", 0)
        yield ("g", 1)
        yield BAD_ITEMS[what]()
        yield ("g", 3)

    view = q.open()
    with pytest.raises(PublishIncomplete) as caught:
        view.publish_many(items())
    assert caught.value.index == 2
    assert caught.value.unknown == 0
    assert len(caught.value.seqs) == 2
    assert isinstance(caught.value.__cause__, TypeError | InvalidMessage)
    assert [row[0] for row in stored(q)] == list(caught.value.seqs)


@pytest.mark.parametrize("bad", [7, None, object()])
def test_publish_many_of_no_iterable_is_refused(q: Queue, bad: Any) -> None:
    view = q.open()
    with pytest.raises((TypeError, InvalidMessage)):
        view.publish_many(bad)


def test_a_bad_call_fails_no_other(q: Queue) -> None:
    """Forty threads call at once, half of them wrongly: each good call lands, each bad one is refused."""
    view = q.open()
    start = threading.Barrier(40)
    good: list[int] = []
    refused: list[Exception] = []
    bads: list[Callable[[], object]] = [
        lambda: view.publish("g", b"{"),
        lambda: view.publish("g", "\ud800"),
        lambda: view.publish("g", 1, rank=2**63),
        lambda: view.publish("", 1),
        lambda: view.claim("w", 0),
    ]

    def one(number: int) -> None:
        start.wait(30)
        for k in range(5):
            if number % 2:
                good.append(view.publish(f"g{number}", k))
                continue
            try:
                bads[(number // 2 + k) % len(bads)]()
            except (TypeError, InvalidMessage) as error:
                refused.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (len(good), len(refused)) == (100, 100)
    assert [row[0] for row in stored(q)] == sorted(good)


BAD_OPTIONS: list[dict[str, Any]] = [
    {"encode": 1},
    {"decode": "json"},
    {"lost": "ignore"},
    {"max_batch": 0},
    {"max_batch": "many"},
    {"max_in_flight": 0},
    {"max_poll": -1},
    {"max_poll": math.nan},
    {"dedup_window": -1},
    {"dedup_window": math.inf},
    {"queue": ""},
    {"queue": 1},
    {"create": "no"},
    {"no_such_option": 1},
]


def test_a_bad_option_is_refused_at_opening(q: Queue) -> None:
    for option in BAD_OPTIONS:
        with pytest.raises((TypeError, ConfigError)) as caught:
            open_address(q.address, **option)
        assert next(iter(option)) in str(caught.value)
