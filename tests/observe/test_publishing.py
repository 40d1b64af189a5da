"""Hooks of a transport: they hear of each call that publishes, and may add to its headers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

import rqfast
from rqfast import (
    AsyncTransport,
    ConfigError,
    Event,
    Group,
    Headers,
    Hooks,
    Id,
    Inbox,
    InvalidMessage,
    Lease,
    LockedUntil,
    Message,
    Payload,
    PublishIncomplete,
    Sending,
    SqliteTransport,
    Transport,
    Worker,
)
from tests.subscriptions.place import Place, run, serving, until

STAMP = {"stamp": "x"}


class Stamps(Hooks):
    """Adds a header to everything, and writes down what it hears."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[tuple[str, str, int, bool]] = []
        self.told: list[Event] = []

    def publishing(self, sending: Sending) -> Callable[[Sending], object]:
        self.begun.append(sending.call)
        assert (sending.seq, sending.error, sending.seconds) == (None, None, 0)
        sending.headers.update(STAMP)
        return self.over

    def over(self, sending: Sending) -> None:
        assert sending.seconds > 0
        self.ended.append((sending.call, sending.group, sending.count, sending.error is None))

    def published(self, event: Event) -> None:
        self.told.append(event)


def stored(place: Place) -> list[tuple[Any, Any]]:
    """Groups and headers, in the order of the seqs, of everything in the queue."""
    with rqfast.connect(place.url, queue=place.queue) as queue:
        found = [one for group in queue.groups() for one in queue.peek(group.group_id, 100)]
    return [(one.group_id, one.headers) for one in sorted(found, key=lambda one: one.seq)]


def test_each_blocking_call(place: Place) -> None:
    stamps = Stamps()
    with rqfast.connect(place.url, queue=place.queue, hooks=[stamps]) as queue:
        assert isinstance(queue, Transport)
        first = queue.publish("a", 1, headers={"own": 1, "stamp": "old"})
        queue.publish_soon("b", 2).result(30)
        queue.flush()
        queue.publish_many([("c", 3), ("c", 4, 0), Message("c", 5, headers={"own": 2})])
        queue.publish_many(iter([("d", 6)]), atomic=True)
        lease = queue.claim()
        assert lease is not None
        queue.ack(lease, publish=[("e", 7), Message("e", 8)])
        (lease,) = queue.claim_many(limit=1)
        assert queue.ack_many([lease], publish=[("f", 9)]) == []
        assert queue.publish_many([]) is not None
        for lease in queue.claim_many(limit=9):
            queue.ack(lease)  # tells of nothing: nothing is published
    want = [
        ("publish", "a", 1, True), ("publish_soon", "b", 1, True), ("publish_many", "", 3, True),
        ("publish_many", "", 1, True), ("ack", "", 2, True), ("ack_many", "f", 1, True), ("publish_many", "", 0, True),
    ]  # fmt: skip
    assert stamps.ended == want and stamps.begun == [call for call, *_ in want]
    assert [(event.group, event.count) for event in stamps.told] == [
        (group, count) for _, group, count, _ in want if count
    ]
    told = stamps.told[0]
    assert (told.seq, told.headers, told.queue) == (first, {"own": 1, **STAMP}, place.queue)


def test_each_async_call(place: Place) -> None:
    stamps = Stamps()

    async def messages() -> AsyncIterator[Any]:
        yield "c", 3
        yield Message("c", 4, headers={"own": 2})

    async def scenario() -> None:
        async with rqfast.connect_async(place.url, queue=place.queue, hooks=[stamps]) as queue:
            assert isinstance(queue, AsyncTransport)
            await queue.publish("a", 1, headers={"own": 1})
            await (await queue.publish_soon("b", 2))
            await queue.publish_many(messages())
            await queue.publish_many([("d", 5)], atomic=True)
            lease = await queue.claim()
            assert lease is not None
            await queue.ack(lease, publish=[("e", 6)])
            (lease,) = await queue.claim_many(limit=1)
            assert await queue.ack_many([lease], publish=[("f", 7)]) == []
            lease = await queue.claim()
            assert lease is not None
            await queue.ack(lease)

    run(scenario())
    want = [
        ("publish", "a", 1, True), ("publish_soon", "b", 1, True), ("publish_many", "", 2, True),
        ("publish_many", "", 1, True), ("ack", "e", 1, True), ("ack_many", "f", 1, True),
    ]  # fmt: skip
    assert stamps.ended == want and stamps.begun == [call for call, *_ in want]
    assert all(headers["stamp"] == "x" for _, headers in stored(place))


def test_headers_are_added_and_the_callers_own_stay(embedded: Place) -> None:
    with rqfast.connect(embedded.url, queue=embedded.queue, hooks=[Stamps()]) as queue:
        queue.publish("a", 1, headers={"own": 1, "stamp": "old"})
        queue.publish_many([("b", 1), Message("b", 2, rank=3, headers={"own": 2})])
    assert stored(embedded) == [("a", {"own": 1, **STAMP}), ("b", STAMP), ("b", {"own": 2, **STAMP})]


BAD: dict[str, Callable[[Any], object]] = {
    "group": lambda queue: queue.publish(7, 1),
    "headers": lambda queue: queue.publish("g", 1, headers=[("a", 1)]),
    "header": lambda queue: queue.publish("g", 1, headers={"a": object()}),
    "soon": lambda queue: queue.publish_soon("", 1),
    "items": lambda queue: queue.publish_many(7),
    "ack": lambda queue: queue.ack(7, publish=[("g", 1)]),
    "publish=": lambda queue: queue.ack(Lease(1, "g", None), publish="no"),
    "an item of publish=": lambda queue: queue.ack(Lease(1, "g", None), publish=[7]),
    "address": lambda queue: queue.publish_to("no", 1),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_refused_in_the_same_words(embedded: Place, what: str) -> None:
    said = []
    for hooks in ([], [Stamps()]):
        with rqfast.connect(embedded.url, queue=embedded.queue, hooks=hooks) as queue:
            queue.publish("there", 1)
            with pytest.raises((TypeError, ValueError)) as caught:
                BAD[what](queue)
            said.append((caught.type, str(caught.value)))
    assert said[0] == said[1]


@pytest.mark.parametrize("items", [None, 5])
def test_what_is_no_iterable_ends_its_call(embedded: Place, items: Any) -> None:
    stamps = Stamps()

    async def scenario() -> None:
        async with rqfast.connect_async(embedded.url, queue=embedded.queue, hooks=[stamps]) as queue:
            with pytest.raises(TypeError):
                await queue.publish_many(items)

    with rqfast.connect(embedded.url, queue=embedded.queue, hooks=[stamps]) as queue:
        with pytest.raises(TypeError):
            queue.publish_many(items)
        run(scenario())
    assert stamps.ended == [("publish_many", "", 0, False)] * 2 and stamps.told == []


def test_a_lease_that_was_lost_with_a_warning(embedded: Place) -> None:
    stamps = Stamps()

    async def scenario() -> None:
        options: dict[str, Any] = {"queue": embedded.queue, "hooks": [stamps], "lost": "warn"}
        async with rqfast.connect_async(embedded.url, **options) as queue:
            lease = await queue.claim()
            assert lease is not None
            await queue.ack(lease, publish=[("h", 1)])
            await queue.ack(lease, publish=[("h", 2)])

    with rqfast.connect(embedded.url, queue=embedded.queue, hooks=[stamps], lost="warn") as queue:
        queue.publish_many([("g", 1), ("g", 2)])
        lease = queue.claim()
        assert lease is not None
        queue.ack(lease)
        queue.ack(lease, publish=[("h", 1)])
        run(scenario())
    assert stamps.ended[1:] == [("ack", "h", 0, False), ("ack", "h", 1, True), ("ack", "h", 0, False)]
    assert [event.group for event in stamps.told] == ["", "h"]
    assert len(stored(embedded)) == 1


def test_what_fails(place: Place) -> None:
    stamps = Stamps()

    def broken() -> Iterator[tuple[str, int]]:
        for number in range(7):
            yield "g", number
        raise OSError("the source is gone")

    with rqfast.connect(place.url, queue=place.queue, hooks=[stamps], max_batch=3, max_in_flight=3) as queue:
        with pytest.raises(PublishIncomplete) as caught:
            queue.publish_many(broken())
        with pytest.raises(InvalidMessage):
            queue.publish("", 1)
        lease = queue.claim()
        assert lease is not None
        queue.ack(lease)
        with pytest.raises(rqfast.LeaseLost):
            queue.ack(lease, publish=[("h", 1)])
        assert queue.ack_many([lease], publish=[("h", 1)]) == [lease]
    there = len(caught.value.seqs)
    assert there > 0
    assert stamps.ended == [
        ("publish_many", "", there, False),
        ("publish", "", 0, False),
        ("ack", "h", 0, False),
        ("ack_many", "h", 0, False),
    ]
    assert [event.count for event in stamps.told] == [there]


class Broken(Hooks):
    def publishing(self, sending: Sending) -> Callable[[Sending], object]:
        if sending.group == "begin":
            raise RuntimeError("at the begin")
        return self.over

    def over(self, sending: Sending) -> None:
        raise RuntimeError("at the end")

    def published(self, event: Event) -> None:
        raise RuntimeError("told")


def test_a_hook_that_fails_fails_no_publish(embedded: Place, caplog: pytest.LogCaptureFixture) -> None:
    with rqfast.connect(embedded.url, queue=embedded.queue, hooks=[Broken()]) as queue:
        queue.publish("begin", 1)
        queue.publish("end", 2)
        assert queue.stats().messages == 2
    assert [record.getMessage() for record in caplog.records] == [
        "a hook failed: Broken.publishing",
        "a hook failed: Broken.published",
        "a hook failed: Broken.publishing, at the end of the call",
        "a hook failed: Broken.published",
    ]


class Deaf(Hooks):
    def settled(self, event: Event) -> None:
        raise AssertionError("no worker runs")


def test_hooks_that_hear_of_no_publish_cost_none(embedded: Place) -> None:
    with rqfast.connect(embedded.url, queue=embedded.queue, hooks=[Deaf()]) as queue:
        assert type(queue) is SqliteTransport


@pytest.mark.parametrize("hooks", [Deaf(), Deaf, [Deaf], 7], ids=["no list", "a class", "a list of classes", "int"])
def test_hooks_are_a_list(hooks: Any) -> None:
    for make in (rqfast.connect, rqfast.connect_async, Worker):
        with pytest.raises(ConfigError, match="hooks="):
            make(":memory:", hooks=hooks)


# -- of a worker ------------------------------------------------------------------------------------------


@dataclass
class Job:
    id: Annotated[int | None, Id(generated=True)]
    target: Annotated[str, Group(fifo=True)]
    locked_until: Annotated[float | None, LockedUntil]
    payload: Annotated[str, Payload]


@dataclass
class JobWithHeaders(Job):
    headers: Annotated[str | None, Headers]


def test_rows_get_what_their_table_has_a_column_for(place: Place) -> None:
    stamps = Stamps()
    names = [f"{table}_{place.queue}" for table in ("jobs", "jobs_with_headers")]
    columns = "id INTEGER PRIMARY KEY, target TEXT, locked_until REAL, payload TEXT"
    place.execute(f'CREATE TABLE "{names[0]}"({columns})')
    place.execute(f'CREATE TABLE "{names[1]}"({columns}, headers TEXT)')
    inboxes = [Inbox(Job, table=names[0]), Inbox(JobWithHeaders, table=names[1])]

    async def scenario() -> None:
        async with rqfast.connect_async(place.url, queue=place.queue, hooks=[stamps]) as queue:
            for inbox in inboxes:
                await queue.publish_to(inbox.group("crm"), 1)

    try:
        with rqfast.connect(place.url, queue=place.queue, hooks=[stamps]) as queue:
            for inbox in inboxes:
                queue.publish_to(inbox.group("crm"), 1)
        run(scenario())
        assert len(place.sql(f'SELECT 1 FROM "{names[0]}"')) == 2
        assert [row[0] for row in place.sql(f'SELECT headers FROM "{names[1]}"')] == ['{"stamp":"x"}'] * 2
    finally:
        for name in names:
            place.execute(f'DROP TABLE "{name}"')
    assert stamps.ended == [("publish_to", "", 1, True)] * 4
    assert {event.queue for event in stamps.told} == set(names)


def test_a_workers_hooks_hear_of_all_that_it_publishes(place: Place) -> None:
    stamps = Stamps()
    worker = place.worker(hooks=[stamps])
    got: list[tuple[str, Any]] = []

    @worker.subscriber(max_attempts=1, dead_letter="dead", groups=["a", "b", "c"])
    async def handle(number: int, ctx: rqfast.Context) -> rqfast.Outcome:
        got.append((ctx.group, ctx.headers.get("stamp")))
        if ctx.group == "a":
            await worker.publish("c", 3)
            return rqfast.Ack(publish=[("b", 2)])
        return rqfast.Dead("enough")

    async def scenario() -> None:
        async with serving(worker):
            await worker.publish("a", 1)
            await until(lambda: worker.counts.dead == 2 and worker.counts.acked == 1, "three messages")

    run(scenario())
    assert sorted(got) == [("a", "x"), ("b", "x"), ("c", "x")]
    assert sorted(call for call, *_ in stamps.ended) == ["ack", "ack", "ack", "publish", "publish"]
    assert sorted(event.group for event in stamps.told) == ["a", "b", "c", "dead", "dead"]


def test_a_transport_that_was_passed_open_has_hooks_of_its_own(embedded: Place) -> None:
    own, passed = Stamps(), Stamps()

    async def scenario() -> None:
        for hooks in ([], [passed]):
            async with rqfast.connect_async(embedded.url, queue=embedded.queue, hooks=hooks) as queue:
                worker = Worker(queue, hooks=[own])
                worker.subscriber()(lambda number: None)
                async with serving(worker):
                    await worker.publish("a", 1)
                    await until(lambda: worker.counts.acked == 1, "a message")  # noqa: B023 - it is of this turn

    run(scenario())
    # The first time there was nobody else to tell it.
    assert [event.group for event in own.told] == ["a"] and own.ended == []
    assert [event.group for event in passed.told] == ["a"]
