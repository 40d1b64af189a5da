"""Calls that are cancelled at each step of the loop in turn: at the first, at the second, until the call ends before.

A step is one turn of the event loop, counted by its selector: whatever a call waits for, and whatever rqfast itself
waits for on its behalf, it is left alone at that point.
"""

from __future__ import annotations

import asyncio
import gc
import selectors
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

import rqfast
from rqfast import Lease, LeaseLost
from tests.contract.conftest import ENGINES
from tests.contract.views import Queue, queue_name

MOST_STEPS = 400
SECONDS = 30.0


class Steps(selectors.DefaultSelector):
    """Calls `then` at a step of the loop."""

    left = 0
    then: Callable[[], object] = staticmethod(lambda: None)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        found = super().select(timeout)
        if self.left > 0:
            self.left -= 1
            if self.left == 0:
                self.then()
        return found


class Stepper:
    """Runs work on a loop of its own, and cancels what it is told to at a step."""

    def __init__(self) -> None:
        self.steps = Steps()
        self.complaints: list[str] = []

    def run(self, script: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, what: self.complaints.append(str(what)))
            async with asyncio.timeout(120):
                await script()

        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(self.steps)) as runner:
            runner.run(main())
            gc.collect()
        assert self.complaints == []

    async def cancelled(self, call: Callable[[], Awaitable[Any]], step: int) -> Any:
        """What the call gave, or CancelledError, when it was cancelled at that step of its own."""

        async def take() -> Any:
            return await call()

        task = asyncio.ensure_future(take())
        self.steps.then, self.steps.left = task.cancel, step
        done, _ = await asyncio.wait((task,), timeout=SECONDS)
        self.steps.then, self.steps.left = Steps.then, 0
        assert done, f"waited {SECONDS:g} s for a call that was cancelled at step {step}"
        return asyncio.CancelledError if task.cancelled() else task.result()


@pytest.fixture(params=["embedded", "dev server"])
def aq(request: pytest.FixtureRequest) -> Iterator[Queue]:
    q = Queue(request.param, "async", ENGINES[request.param](request), queue_name())
    yield q
    q.close()


def at_each_step(q: Queue, trial: Callable[[Any, Stepper, int], Awaitable[bool]]) -> None:
    """Run the trial on one transport, cancelled at step 1, 2, .., until it was not cancelled."""
    stepper = Stepper()

    async def script() -> None:
        async with rqfast.connect_async(q.url, **q.options) as transport:
            for step in range(1, MOST_STEPS):
                if await trial(transport, stepper, step):
                    assert step > 1
                    return
                await check_it_works(transport, step)
        raise AssertionError(f"not at its end after {MOST_STEPS} steps")

    stepper.run(script)
    assert q.sql(f"SELECT count(*) FROM {q.table('messages')} WHERE locked_by IS NOT NULL") == [(0,)]


async def check_it_works(transport: Any, step: int) -> None:
    """Publish, claim and acknowledge a message of a group of its own."""
    seq = await transport.publish("sound", step, priority=4)
    lease = await transport.claim("w", 600, 4)
    assert lease is not None and (lease.seq, lease.attempts) == (seq, 1)
    await transport.ack(lease)


async def drained(transport: Any, count: int | None = None) -> list[Lease[Any]]:
    """Claim and acknowledge what is there: `count` messages, each claimed for the first time; None: what there is."""
    found: list[Lease[Any]] = []
    async with asyncio.timeout(SECONDS):
        while len(found) < count if count is not None else True:
            # What was just given back may still be on its way.
            leases = await transport.claim_many("other", 600, 100, wait=0 if count is None else 5)
            if not leases and count is None:
                return found
            assert [lease for lease in leases if lease.attempts != 1] == []
            assert await transport.ack_many(leases) == []
            found += leases
    return found


async def nothing_is_left(transport: Any) -> bool:
    return (await transport.stats()).messages == 0


# -- publishing --------------------------------------------------------------------------------------------

PUBLISHES: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "publish": lambda t: t.publish("g", 0),
    "publish with a dedup_id": lambda t: t.publish("g", 0, dedup_id="x"),
    "publish_soon": lambda t: t.publish_soon("g", 0),
    "publish_many": lambda t: t.publish_many([(f"g{n % 2}", n // 2) for n in range(40)]),
    "publish_many of an async iterable": lambda t: t.publish_many(slowly(40)),
    "publish_many, atomic": lambda t: t.publish_many([("g", n) for n in range(3)], atomic=True),
}


async def slowly(count: int) -> Any:
    for n in range(count):
        yield f"g{n % 2}", n // 2
        if n % 10 == 0:
            await asyncio.sleep(0)


@pytest.mark.parametrize("name", PUBLISHES)
def test_publishing(aq: Queue, name: str) -> None:
    """Of each group there is what was given, up to some point; of an atomic one all or nothing."""

    async def trial(transport: Any, stepper: Stepper, step: int) -> bool:
        result = await stepper.cancelled(lambda: PUBLISHES[name](transport), step)
        if isinstance(result, asyncio.Future):
            await result
        await transport.publish("end", 0)
        found: dict[str, list[Any]] = {"end": [], "g": [], "g0": [], "g1": []}
        for lease in await drained(transport):
            found[lease.group_id].append(lease.event)
        assert found.pop("end") == [0]
        for group, events in found.items():
            assert events == list(range(len(events))), f"{group} at step {step}"
        if name.endswith("atomic"):
            assert len(found["g"]) in (0, 3)
        aq.execute(f"DELETE FROM {aq.table('dedup')}")
        return result is not asyncio.CancelledError

    at_each_step(aq, trial)


# -- claiming ----------------------------------------------------------------------------------------------

CLAIMS: dict[str, Callable[[Any], Awaitable[Any]]] = {
    "claim": lambda t: t.claim("w", 600),
    "claim_many": lambda t: t.claim_many("w", 600, 4),
    "claim_run": lambda t: t.claim_run("w", 600, 4),
}


@pytest.mark.parametrize("wait", [0, 20], ids=["at once", "waiting"])
@pytest.mark.parametrize("name", CLAIMS)
def test_claiming(aq: Queue, name: str, wait: int) -> None:
    """What nobody got can be claimed again at once, with no attempt spent."""

    late: list[Any] = []

    async def call(transport: Any) -> Any:
        if not wait:
            return await CLAIMS[name](transport)
        claim = getattr(transport, name)("w", 600, wait=wait)
        late.append(transport.publish("late", 0))
        return await claim

    async def trial(transport: Any, stepper: Stepper, step: int) -> bool:
        before = [] if wait else [("a", 0), ("b", 0), ("a", 1)]
        await transport.publish_many(before)
        result = await stepper.cancelled(lambda: call(transport), step)
        while late:
            await late.pop()
        if result is not asyncio.CancelledError:
            assert result
            for lease in result if isinstance(result, list) else [result]:
                await transport.ack(lease)
            await drained(transport)
        else:
            await drained(transport, (await transport.stats()).messages)
        assert await nothing_is_left(transport)
        return result is not asyncio.CancelledError

    at_each_step(aq, trial)


def test_claiming_with_an_acknowledgement(aq: Queue) -> None:
    """The acknowledgement is there or not, and what was to be claimed is free."""

    async def trial(transport: Any, stepper: Stepper, step: int) -> bool:
        await transport.publish_many([("a", 0), ("b", 0)])
        first = await transport.claim("w", 600)
        result = await stepper.cancelled(lambda: transport.claim("w", 600, ack=first), step)
        if result is not asyncio.CancelledError:
            assert result.group_id == "b"
            await transport.ack(result)
        else:
            acked = await is_spent(transport, first)
            assert len(await drained(transport, 1)) == 1
            assert acked or step < MOST_STEPS
        assert await nothing_is_left(transport)
        return result is not asyncio.CancelledError

    at_each_step(aq, trial)


async def is_spent(transport: Any, lease: Lease[Any]) -> bool:
    """Whether its acknowledgement had taken effect; it has now."""
    try:
        await transport.ack(lease)
    except LeaseLost:
        return True
    return False


# -- settling and operating --------------------------------------------------------------------------------

SETTLEMENTS: dict[str, Callable[[Any, Lease[Any]], Awaitable[Any]]] = {
    "ack": lambda t, lease: t.ack(lease),
    "ack with a publish": lambda t, lease: t.ack(lease, publish=[("a", 1)]),
    "ack_many": lambda t, lease: t.ack_many([lease]),
    "nack": lambda t, lease: t.nack(lease),
    "defer": lambda t, lease: t.defer(lease, 0),
    "extend": lambda t, lease: t.extend(lease, 700),
    "dead_letter": lambda t, lease: t.dead_letter(lease, "why"),
    "release": lambda t, lease: t.release("a"),
    "pause and resume": lambda t, lease: asyncio.gather(t.pause("a"), t.resume("a")),
    "purge": lambda t, lease: t.purge("a"),
    "stats": lambda t, lease: t.stats(),
    "peek": lambda t, lease: t.peek("a"),
}


@pytest.mark.parametrize("name", SETTLEMENTS)
def test_settling_and_operating(aq: Queue, name: str) -> None:
    """It took effect or it did not: the message is there once, in the queue or among the dead letters, and free."""

    async def trial(transport: Any, stepper: Stepper, step: int) -> bool:
        await transport.publish("a", 0)
        lease = await transport.claim("w", 600)
        result = await stepper.cancelled(lambda: SETTLEMENTS[name](transport, lease), step)
        await transport.resume("a")
        spent = await is_spent(transport, lease)
        left = [row.event for row in await transport.peek("a")]
        dead = await transport.dead_letters()
        await transport.drop_dead_letters([letter.seq for letter in dead])
        gone = name.startswith("ack") or dead != []
        assert left == ([] if gone or not spent else [0]) or (name == "ack with a publish" and spent and left == [1])
        assert await transport.purge("a") == len(left)
        assert await nothing_is_left(transport)
        return result is not asyncio.CancelledError

    at_each_step(aq, trial)


# -- opening and closing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["entered", "first call"])
def test_opening_and_closing(aq: Queue, how: str) -> None:
    """No task, session or connection is left, and the message is there or is not."""
    aq.open()
    stepper = Stepper()

    async def use() -> None:
        if how == "entered":
            async with rqfast.connect_async(aq.url, **aq.options) as transport:
                await transport.publish("g", 1)
        else:
            kind: Any = rqfast.AsyncSqliteTransport if aq.engine == "embedded" else rqfast.AsyncRqliteTransport
            transport = kind(aq.url, **aq.options)
            try:
                await transport.publish("g", 1)
            finally:
                await transport.close()

    async def script() -> None:
        before = asyncio.all_tasks()
        for step in range(1, MOST_STEPS):
            ended = await stepper.cancelled(use, step) is not asyncio.CancelledError
            # Closing goes on by itself.
            async with asyncio.timeout(SECONDS):
                while left := asyncio.all_tasks() - before:
                    await asyncio.wait(left)
            if ended:
                assert step > 1
                return
        raise AssertionError(f"not at its end after {MOST_STEPS} steps")

    stepper.run(script)
    view = aq.open()
    count = view.stats().messages
    assert count >= 1
    while (lease := view.claim("w")) is not None:
        assert lease.attempts == 1
        view.ack(lease)
