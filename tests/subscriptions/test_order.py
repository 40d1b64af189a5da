"""Order, attempts and outcomes of subscriptions on the queue."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rqfast import Ack, Context, Dead, Drop, Exponential, Outcome, Retry, RetryAfter
from tests.subscriptions.place import Place, run, serving, until


def test_four_workers_keep_the_order_of_eight(place: Place) -> None:
    async def scenario() -> None:
        done: list[int] = []
        at_once = 0

        async def handle(number: int) -> None:
            nonlocal at_once
            at_once += 1
            assert at_once == 1, "two messages of one group in work"
            await asyncio.sleep(0.002)
            done.append(number)
            at_once -= 1

        workers = [place.worker(name=f"w{n}") for n in range(4)]
        for worker in workers:
            worker.subscriber(group="crm")(handle)
        async with serving(*workers):
            async with place.connect() as transport:
                await transport.publish_many(("crm", number) for number in range(8))
            await until(lambda: len(done) == 8, "eight messages")
        assert done == list(range(8))

    run(scenario())


@pytest.mark.parametrize(
    ("outcome", "expected"), [(RetryAfter(0.3), [1, 2, 3, 1]), (Retry(0.3), [1, 1, 2, 3]), (Retry(), [1, 1, 2, 3])]
)
def test_a_delayed_head(place: Place, outcome: Outcome, expected: list[int]) -> None:
    async def scenario() -> None:
        seen: list[int] = []
        worker = place.worker()

        @worker.subscriber(group="crm")
        async def handle(number: int, ctx: Context) -> Outcome | None:
            seen.append(number)
            return outcome if number == 1 and ctx.attempt == 1 else None

        async with place.connect() as transport:
            await transport.publish_many(("crm", number) for number in (1, 2, 3))
        async with serving(worker):
            await until(lambda: len(seen) == 4, "four deliveries")
        assert seen == expected

    run(scenario())


@pytest.mark.parametrize("raised", [False, True], ids=["returned", "raised"])
def test_every_outcome(place: Place, raised: bool) -> None:
    async def scenario() -> None:
        seen: list[tuple[str, int]] = []
        worker = place.worker()
        outcomes: dict[str, Outcome] = {
            "ack": Ack(),
            "retry": Retry(),
            "parked": Retry(0.1),
            "deferred": RetryAfter(0.1),
            "drop": Drop(),
            "dead": Dead("no such customer"),
        }

        @worker.subscriber()
        async def handle(what: str, ctx: Context) -> Outcome:
            seen.append((what, ctx.attempt))
            outcome = outcomes[what] if ctx.attempt == 1 else Ack()
            if raised:
                raise outcome
            return outcome

        async with place.connect() as transport:
            await transport.publish_many((name, name) for name in outcomes)
            async with serving(worker):
                await until(lambda: _done(worker, 6), "six messages")
                counts = worker.counts
            assert (counts.acked, counts.retried, counts.dropped, counts.dead) == (4, 3, 1, 1)
            assert sorted(seen) == sorted(
                [(name, 1) for name in outcomes] + [(x, 2) for x in ("retry", "parked", "deferred")]
            )
            dead = await transport.dead_letters()
            assert [(one.event, one.reason, one.error) for one in dead] == [("dead", "no such customer", None)]
            assert (await transport.stats()).messages == 0

    run(scenario())


def _done(worker: Any, count: int) -> bool:
    counts = worker.counts
    return bool(counts.acked + counts.dropped + counts.dead == count)


def test_a_poison_message_goes_to_the_dead_letters_and_its_group_moves_on(place: Place) -> None:
    async def scenario() -> None:
        seen: list[tuple[str, int]] = []
        worker = place.worker()

        @worker.subscriber(prefix="crm/", max_attempts=3, dead_letter=True, backoff=Exponential(first=0.01, most=0.05))
        async def handle(what: str, ctx: Context) -> None:
            seen.append((what, ctx.attempt))
            if what == "poison":
                raise ValueError("cannot do \0 this")

        async with place.connect() as transport:
            await transport.publish_many([("crm/1", "poison"), ("crm/1", "good"), ("other", "not ours")])
            async with serving(worker):
                await until(lambda: worker.counts.acked == 1, "the message behind the poison")
                assert worker.counts.failed == 3 and worker.counts.dead == 1
            assert seen == [("poison", 1), ("poison", 2), ("poison", 3), ("good", 1)]
            (dead,) = await transport.dead_letters()
            assert dead.reason == "failed after 3 attempts" and dead.attempts == 3
            assert dead.error == "ValueError: cannot do \\x00 this"
            assert (await transport.stats()).messages == 1

    run(scenario())


def test_dead_letters_in_another_group(place: Place) -> None:
    async def scenario() -> None:
        buried: list[Any] = []
        worker = place.worker()

        @worker.subscriber(group="crm", max_attempts=1, dead_letter="crm-dead")
        async def handle(change: dict[str, int]) -> None:
            raise KeyError("customer")

        @worker.subscriber(group="crm-dead")
        async def bury(change: dict[str, int], ctx: Context) -> None:
            buried.append((change, ctx.headers["dead_reason"], ctx.headers["dead_group"], ctx.headers["dead_error"]))

        async with serving(worker):
            await worker.publish("crm", {"customer": 7})
            await until(lambda: buried, "the dead letter")
        assert buried == [({"customer": 7}, "failed after 1 attempt", "crm", "KeyError: 'customer'")]

    run(scenario())


def test_groups_in_a_list_and_every_group_side_by_side(place: Place) -> None:
    async def scenario() -> None:
        seen: list[str] = []
        at_once, most = 0, 0
        worker = place.worker(concurrency=8)

        @worker.subscriber(groups=["a", "b"])
        async def some(what: str, ctx: Context) -> None:
            seen.append(ctx.group)

        @worker.subscriber(prefix="many")
        async def many(what: str) -> None:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0.05)
            at_once -= 1

        async with place.connect() as transport:
            await transport.publish_many([("a", "x"), ("b", "x"), ("c", "x"), *((f"many{n}", "x") for n in range(20))])
            async with serving(worker):
                await until(lambda: worker.counts.acked == 22, "all but one message")
            assert sorted(seen) == ["a", "b"] and 1 < most <= 8
            assert [group.group_id for group in await transport.groups()] == ["c"]

    run(scenario())


def test_redriven_dead_letters_keep_their_order_and_never_run_side_by_side(place: Place) -> None:
    async def scenario() -> None:
        seen: list[int] = []
        broken = True
        at_once = 0
        worker = place.worker(concurrency=8)

        @worker.subscriber(group="crm", max_attempts=1, dead_letter=True)
        async def handle(number: int) -> None:
            nonlocal at_once
            at_once += 1
            assert at_once == 1, "two messages of one group in work"
            await asyncio.sleep(0.002)
            at_once -= 1
            if broken:
                raise RuntimeError("the other system is down")
            seen.append(number)

        async with place.connect() as transport, serving(worker):
            await transport.publish_many(("crm", number) for number in range(6))
            await until(lambda: worker.counts.dead == 6, "six dead letters")
            broken = False
            # Published later than those that come back, and so behind them.
            await transport.pause("crm")
            await transport.publish("crm", 6)
            assert await transport.redrive("crm") == 6
            await transport.resume("crm")
            await until(lambda: len(seen) == 7, "seven messages")
        assert seen == list(range(7))

    run(scenario())


def test_a_plain_handler_publishes_and_pauses_by_plain_calls(place: Place) -> None:
    async def scenario() -> None:
        got: list[tuple[str, int]] = []
        worker = place.worker()

        @worker.subscriber(group="first")
        def hand_on(number: int) -> None:
            assert worker.publish("second", number + 1) > 0

        @worker.subscriber(group="second", name="second")
        async def receive(number: int) -> None:
            got.append(("second", number))

        async with serving(worker):
            await worker.publish("first", 1)
            await until(lambda: got == [("second", 2)], "the message that was handed on")

    run(scenario())
