"""publish_many: streams in order, tells every seq, and when it stops half-way it says what is in."""

from array import array
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import rqfast
from rqfast import Message, PublishIncomplete
from tests.contract.views import Queue, View, run_async


def count(q: Queue) -> int:
    """Messages in the queue."""
    number: int = q.sql(f"SELECT count(*) FROM {q.table('messages')}")[0][0]
    return number


def drain(view: View) -> dict[str, list[Any]]:
    """All events by group, in the order in which they came."""
    seen: dict[str, list[Any]] = {}
    while leases := view.claim_many("w", 600, 100):
        for lease in leases:
            seen.setdefault(lease.group_id, []).append(lease.event)
        assert view.ack_many(leases) == []
    return seen


def test_it_tells_every_seq(q: Queue) -> None:
    view = q.open()
    seqs = view.publish_many([("g", n) for n in range(10)])
    assert isinstance(seqs, array)
    assert seqs.typecode == "q"
    assert list(seqs) == [row[0] for row in q.sql(f"SELECT seq FROM {q.table('messages')} ORDER BY seq")]


def test_nothing_is_nothing(q: Queue) -> None:
    view = q.open()
    assert view.publish_many([]) == array("q")
    assert view.publish_many(iter(())) == array("q")


def test_items_of_every_form(q: Queue) -> None:
    view = q.open()
    view.publish_many(
        [
            ("a", 1),
            ("b", 2, 3),
            Message("c", 3),
            Message("d", 4, 2, rank=-1, headers={"h": "1"}, dedup_id="d"),
            ("a", b' {"raw": 1.00} '),
        ]
    )
    leases = {lease.group_id: lease for lease in view.claim_many("w", 600, 10)}
    assert {group: (lease.event, lease.priority, lease.rank) for group, lease in leases.items()} == {
        "a": (1, 0, 0),
        "b": (2, 3, 0),
        "c": (3, 0, 0),
        "d": (4, 2, -1),
    }
    assert leases["d"].headers == {"h": "1"}
    view.ack(leases["a"])
    following = view.claim("w")
    assert following is not None and following.raw == ' {"raw": 1.00} '


@pytest.mark.parametrize("options", [{}, {"max_batch": 7}, {"max_in_flight": 10}], ids=str)
def test_many_thousands_stream_in_order(q: Queue, options: dict[str, int]) -> None:
    number = 5000 if not options else 500
    view = q.open(**options)
    seqs = view.publish_many((f"g{n % 40}", n) for n in range(number))
    assert len(set(seqs)) == number
    for group in range(40):
        of_group = list(seqs[group::40])
        assert of_group == sorted(of_group)
    assert drain(view) == {f"g{k}": list(range(k, number, 40)) for k in range(40)}


def test_large_items_stream_in_batches_that_fit(q: Queue) -> None:
    view = q.open()
    seqs = view.publish_many([("g", f"{n}" + "x" * 500_000) for n in range(24)])
    assert list(seqs) == sorted(set(seqs))
    for n in range(24):
        lease = view.claim("w", 600)
        assert lease is not None and lease.event[: len(f"{n}x")] == f"{n}x"
        view.ack(lease)


def test_an_iterable_that_raises_stops_it_half_way(q: Queue) -> None:
    class Broken(Exception):
        pass

    def items() -> Iterator[tuple[str, int]]:
        for n in range(2500):
            yield f"g{n % 5}", n
        raise Broken

    view = q.open()
    with pytest.raises(PublishIncomplete) as caught:
        view.publish_many(items())
    assert isinstance(caught.value.__cause__, Broken)
    assert (caught.value.index, caught.value.unknown, len(caught.value.seqs)) == (2500, 0, 2500)
    assert count(q) == 2500
    assert drain(view) == {f"g{k}": list(range(k, 2500, 5)) for k in range(5)}


@pytest.mark.parametrize("place", [0, 1, 1500])
def test_a_bad_item_stops_it_and_all_before_it_are_in(q: Queue, place: int) -> None:
    items: list[Any] = [("g", n) for n in range(3000)]
    items[place] = ("g", b"{")
    view = q.open()
    with pytest.raises(PublishIncomplete) as caught:
        view.publish_many(items)
    assert (caught.value.index, caught.value.unknown, len(caught.value.seqs)) == (place, 0, place)
    cause = caught.value.__cause__
    assert isinstance(cause, rqfast.InvalidMessage)
    assert (cause.argument, cause.item) == ("event", place)
    assert count(q) == place
    assert list(caught.value.seqs) == [row[0] for row in q.sql(f"SELECT seq FROM {q.table('messages')} ORDER BY seq")]


def test_the_twin_takes_async_iterables(q: Queue) -> None:
    if q.colour == "sync":
        pytest.skip("sync: async iterables are the twin's")

    async def items() -> AsyncIterator[tuple[str, int]]:
        for n in range(100):
            yield "g", n

    async def script() -> Any:
        async with rqfast.connect_async(q.url, **q.options) as transport:
            return await transport.publish_many(items())

    seqs = run_async(script(), "publish_many of an async iterable")
    assert len(seqs) == 100
    assert drain(q.open()) == {"g": list(range(100))}


def test_what_the_iterable_publishes_itself_is_in_as_well(q: Queue) -> None:
    """The iterable runs in the caller's thread and may use the transport."""
    if q.colour == "async":
        pytest.skip("async: an iterable cannot wait for the transport")
    view = q.open()

    def items() -> Iterator[tuple[str, int]]:
        for n in range(5):
            view.publish("inner", n)
            yield "outer", n

    view.publish_many(items())
    assert drain(view) == {"inner": list(range(5)), "outer": list(range(5))}
