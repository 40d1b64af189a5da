"""Hooks around a handler: what they set is seen by the handler, and by what it publishes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import pytest

import rqfast
from rqfast import Ack, Context, Dead, Event, Hooks, LeaseLost, Outcome, Retry, Sending
from rqfast.observe import handling
from tests.subscriptions.place import SECONDS, Place, run, serving, until

current: ContextVar[str] = ContextVar("current", default="nothing")


class Around(Hooks):
    """Sets a variable around handlers, and writes down what comes when."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.events: dict[str, list[Event]] = {}

    def handling(self, events: Sequence[Event]) -> AbstractContextManager[None]:
        return self._around(events)

    @contextmanager
    def _around(self, events: Sequence[Event]) -> Iterator[None]:
        what = "+".join(sorted(event.group for event in events))
        token = current.set(what)
        self.lines.append(f"enter {what}")
        try:
            yield
        except BaseException as error:
            self.lines.append(f"raised {type(error).__name__}")
            raise
        finally:
            current.reset(token)
            self.lines.append(f"leave {what}")

    def publishing(self, sending: Sending) -> None:
        self.lines.append(f"{sending.call} in {current.get()}")

    def claimed(self, event: Event) -> None:
        self._tell("claimed", event)

    def handled(self, event: Event) -> None:
        self._tell("handled", event)

    def settled(self, event: Event) -> None:
        self._tell("settled", event)

    def lost(self, event: Event) -> None:
        self._tell("lost", event)

    def _tell(self, what: str, event: Event) -> None:
        self.lines.append(f"{what} {event.group} {event.outcome}".strip())
        self.events.setdefault(what, []).append(event)


@pytest.mark.parametrize("colour", ["async", "plain"])
def test_a_handler_and_what_it_publishes_are_within(place: Place, colour: str) -> None:
    around = Around()
    worker = place.worker(hooks=[around])
    seen: list[str] = []

    async def waits(event: Any) -> Outcome:
        await asyncio.sleep(0)
        seen.append(current.get())
        await worker.publish("other", 2)
        return Ack(publish=[("another", 3)])

    def plain(event: Any) -> Outcome:
        seen.append(current.get())
        worker.publish("other", 2)
        return Ack(publish=[("another", 3)])

    worker.subscriber(group="g", name="within")(waits if colour == "async" else plain)

    async def scenario() -> None:
        async with place.connect() as queue:
            await queue.publish("g", 1)
            async with serving(worker):
                await until(lambda: worker.counts.acked == 1, "a message")

    run(scenario())
    assert seen == ["g"]
    assert around.lines == [
        "claimed g", "enter g", "publish in g", "handled g Ack", "ack in g", "leave g", "settled g Ack",
    ]  # fmt: skip
    claimed, handled, settled = (around.events[what][0] for what in ("claimed", "handled", "settled"))
    assert claimed.waited is not None and claimed.waited >= 0 and claimed.age == claimed.seconds
    assert handled.age is not None and settled.age is not None and settled.age >= handled.age >= 0
    assert handled.seconds == settled.seconds and handled.error is None
    assert {event.queue for event in (claimed, handled, settled)} == {place.queue}


def test_a_batch_is_one(embedded: Place) -> None:
    around = Around()
    worker = embedded.worker(hooks=[around])

    @worker.subscriber(batch=10)
    async def handle(events: list[Any]) -> list[Outcome]:
        return [Ack() if event == 1 else Dead("no") for event in events]

    async def scenario() -> None:
        async with embedded.connect() as queue:
            await queue.publish_many([("a", 1), ("b", 2)], atomic=True)
            async with serving(worker):
                await until(lambda: worker.counts.acked + worker.counts.dead == 2, "both messages")

    run(scenario())
    assert sorted(around.lines[:3]) == ["claimed a", "claimed b", "enter a+b"]
    assert sorted(around.lines[3:5]) == ["handled a Ack", "handled b Dead"]
    assert around.lines[5] == "leave a+b"


def test_what_fails_says_so(embedded: Place) -> None:
    around = Around()
    worker = embedded.worker(hooks=[around])

    @worker.subscriber(group="fails", max_attempts=1, dead_letter=True)
    async def fails(event: Any) -> None:
        raise OSError("no")

    @worker.subscriber(group="undecodable", max_attempts=1, dead_letter=True)
    async def decodes(event: int) -> None:
        raise AssertionError("it has no int")

    @worker.subscriber(group="raises")
    async def raises(event: Any, ctx: Context) -> None:
        raise Retry(0.01) if ctx.attempt == 1 else Ack()

    async def scenario() -> None:
        async with embedded.connect() as queue:
            for group in ("fails", "undecodable", "raises"):
                await queue.publish(group, "text")
            async with serving(worker):
                await until(lambda: worker.counts.dead == 2 and worker.counts.acked == 1, "three messages")

    run(scenario())
    said = {
        (event.group, event.attempt): (event.outcome, type(event.error).__name__) for event in around.events["handled"]
    }
    assert said.pop(("undecodable", 1))[0] == "Dead"
    assert said == {
        ("fails", 1): ("Dead", "OSError"), ("raises", 1): ("Retry", "NoneType"), ("raises", 2): ("Ack", "NoneType"),
    }  # fmt: skip
    assert len(around.events["settled"]) == 4
    assert not [line for line in around.lines if line.startswith("raised")]


def test_a_lease_that_is_lost_and_a_worker_that_stops(embedded: Place) -> None:
    around = Around()
    worker = embedded.worker(hooks=[around], visibility=0.5, grace=0)

    @worker.subscriber()
    async def hangs(event: Any, ctx: Context) -> None:
        if ctx.group == "lost" and ctx.attempt > 1:
            return
        await asyncio.sleep(SECONDS)

    async def scenario() -> None:
        async with embedded.connect() as queue:
            await queue.publish("lost", 1)
            await queue.publish("stops", 2)
            async with serving(worker):
                await until(lambda: len(around.events.get("claimed", [])) == 2, "two handlers")
                await queue.release("lost")
                await until(lambda: worker.counts.acked == worker.counts.lost == 1, "the second delivery")

    run(scenario())
    assert [event.group for event in around.events["lost"]] == ["lost"]
    # Both ways out of a handler end what was entered.
    assert around.lines.count("leave lost") == 2 and around.lines.count("leave stops") == 1
    assert "raised CancelledError" in around.lines
    assert [event.group for event in around.events["handled"]] == ["lost"]


class Broken(Hooks):
    """Fails in all ways that a context manager can."""

    def __init__(self, where: str) -> None:
        self.where = where

    def handling(self, events: Sequence[Event]) -> Any:
        if self.where == "call":
            raise RuntimeError("call")
        return "no context manager" if self.where == "type" else self

    def __enter__(self) -> None:
        if self.where == "enter":
            raise RuntimeError("enter")

    def __exit__(self, *raised: object) -> bool:
        if self.where == "exit":
            raise RuntimeError("exit")
        return True


@pytest.mark.parametrize("where", ["call", "type", "enter", "exit", "swallows"])
def test_one_that_fails_touches_no_message(embedded: Place, where: str, caplog: pytest.LogCaptureFixture) -> None:
    around = Around()
    worker = embedded.worker(hooks=[Broken(where), around])

    @worker.subscriber(max_attempts=2, dead_letter=True, backoff=0)
    async def fails(event: Any) -> None:
        raise OSError("no")

    async def scenario() -> None:
        async with embedded.connect() as queue:
            await queue.publish("g", 1)
            async with serving(worker):
                await until(lambda: worker.counts.dead == 1, "a dead letter")

    run(scenario())
    assert around.lines.count("leave g") == 2 and len(around.events["settled"]) == 2
    assert ("a hook failed: Broken.handling" in caplog.text) == (where != "swallows")


# -- a loop of one's own ----------------------------------------------------------------------------------


def test_a_loop_of_ones_own(place: Place) -> None:
    around = Around()
    with rqfast.connect(place.url, queue=place.queue) as queue:
        for group in ("acked", "again", "fails", "lost"):
            queue.publish(group, group, headers={"trace": group})
        for lease in queue.claim_many(limit=4):
            ends = {"fails": pytest.raises(OSError, match="no"), "lost": pytest.raises(LeaseLost)}
            end: AbstractContextManager[Any] = ends.get(lease.event, nullcontext())
            with end, handling([around], lease, "mine", place.queue) as said:
                assert current.get() == lease.group_id
                if lease.event == "fails":
                    raise OSError("no")
                if lease.event == "again":
                    said.outcome = "Retry"
                    queue.nack(lease)
                    continue
                if lease.event == "lost":
                    queue.release(lease.group_id)
                queue.ack(lease)
    settled = {event.group: (event.outcome, type(event.error).__name__) for event in around.events["settled"]}
    assert settled == {
        "acked": ("Ack", "NoneType"), "again": ("Retry", "NoneType"), "fails": ("Retry", "OSError"),
    }  # fmt: skip
    assert [event.group for event in around.events["lost"]] == ["lost"]
    assert [event.group for event in around.events["claimed"]] == ["acked", "again", "fails", "lost"]
    for event in around.events["claimed"] + around.events["settled"]:
        assert (event.subscription, event.queue, event.attempt) == ("mine", place.queue, 1)
        assert event.headers == {"trace": event.group} and event.age is not None
