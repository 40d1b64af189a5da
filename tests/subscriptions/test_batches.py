"""Handlers that get many messages at once, each of another group."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from rqfast import Ack, Context, Dead, Drop, Outcome, Retry, Worker
from tests.subscriptions.place import Place, run, serving, until


@dataclass
class Order:
    number: int


async def publish(place: Place, *items: Any) -> None:
    async with place.connect() as transport:
        await transport.publish_many(items)


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
@pytest.mark.parametrize("each", [False, True], ids=["one for all", "one each"])
def test_outcomes_of_a_batch(place: Place, each: bool, plain: bool) -> None:
    async def scenario() -> None:
        batches: list[list[int]] = []
        worker = place.worker()

        def outcomes(orders: list[Order], contexts: list[Context]) -> Any:
            assert [type(order) for order in orders] == [Order] * len(orders)
            assert [ctx.group for ctx in contexts] == [f"g{order.number}" for order in orders]
            batches.append([order.number for order in orders])
            if not each:
                return Ack()
            said: list[Outcome | None] = [Ack(), Drop(), Dead("no"), Retry(), None]
            return [
                said[order.number] if ctx.attempt == 1 else None for order, ctx in zip(orders, contexts, strict=True)
            ]

        async def handle(orders: list[Order], contexts: list[Context]) -> Any:
            return outcomes(orders, contexts)

        def handle_plainly(orders: list[Order], contexts: list[Context]) -> Any:
            return outcomes(orders, contexts)

        worker.subscriber(batch=5, concurrency=5)(handle_plainly if plain else handle)
        await publish(place, *((f"g{n}", {"number": n}) for n in range(5)))
        async with serving(worker):
            await until(lambda: _ended(worker) == 5, "five messages")
            counts = worker.counts
        assert batches[0] == [0, 1, 2, 3, 4]
        if each:
            assert (counts.acked, counts.dropped, counts.dead, counts.retried) == (3, 1, 1, 1)
        else:
            assert (counts.acked, counts.dropped, counts.dead, counts.retried) == (5, 0, 0, 0)

    run(scenario())


def _ended(worker: Worker) -> int:
    counts = worker.counts
    return counts.acked + counts.dropped + counts.dead


def test_item_2_of_5_holds_back_only_its_group(place: Place) -> None:
    async def scenario() -> None:
        seen: list[tuple[str, int]] = []
        worker = place.worker()

        @worker.subscriber(batch=5, concurrency=5)
        async def handle(numbers: list[int], contexts: list[Context]) -> list[Outcome]:
            seen.extend((ctx.group, number) for ctx, number in zip(contexts, numbers, strict=True))
            return [
                Retry(600) if (ctx.group, n) == ("g1", 0) else Ack() for ctx, n in zip(contexts, numbers, strict=True)
            ]

        await publish(place, *((f"g{n % 5}", n // 5) for n in range(15)))
        async with serving(worker), place.connect() as transport:
            await until(lambda: worker.counts.acked == 12, "the messages of four groups")
            assert (await transport.stats()).parked == 1
            (held,) = await transport.groups()
            assert (held.group_id, held.state, held.depth) == ("g1", "parked", 3)
        assert [number for group, number in seen if group == "g1"] == [0]
        for n in (0, 2, 3, 4):
            assert [number for group, number in seen if group == f"g{n}"] == [0, 1, 2]

    run(scenario())


def test_a_message_that_cannot_be_decoded_is_given_up_and_the_rest_goes_on(place: Place) -> None:
    async def scenario() -> None:
        seen: list[int] = []
        worker = place.worker()

        @worker.subscriber(batch=5, concurrency=5, max_attempts=3, dead_letter=True)
        async def handle(orders: list[Order], contexts: list[Context]) -> list[Outcome]:
            seen.extend(order.number for order in orders)
            return [Ack() for _ in orders]

        await publish(
            place, *((f"g{n}", {"number": n} if n != 2 else {"amount": 2}) for n in range(5)), ("g2", {"number": 7})
        )
        async with serving(worker), place.connect() as transport:
            await until(lambda: _ended(worker) == 6, "six messages")
            (dead,) = await transport.dead_letters()
        assert sorted(seen) == [0, 1, 3, 4, 7]
        assert (dead.group_id, dead.event, dead.reason, dead.attempts) == ("g2", {"amount": 2}, "undecodable", 1)
        assert dead.error is not None and "number" in dead.error

    run(scenario())


def test_a_batch_holds_one_message_of_a_group(place: Place) -> None:
    async def scenario() -> None:
        sizes: list[int] = []
        done: dict[str, list[int]] = {}
        worker = place.worker()

        @worker.subscriber(batch=16, concurrency=32)
        async def handle(numbers: list[int], contexts: list[Context]) -> None:
            groups = [ctx.group for ctx in contexts]
            assert len(set(groups)) == len(groups), groups
            sizes.append(len(groups))
            await asyncio.sleep(0)
            for group, number in zip(groups, numbers, strict=True):
                done.setdefault(group, []).append(number)

        await publish(place, *((f"g{n % 3}", n) for n in range(30)))
        async with serving(worker):
            await until(lambda: worker.counts.acked == 30, "all messages")
            assert worker.counts.failed == 0
        assert max(sizes) == 3
        assert done == {f"g{m}": list(range(m, 30, 3)) for m in range(3)}

    run(scenario())


@pytest.mark.parametrize("wrong", ["raised", "too few", "no outcome"])
def test_a_batch_that_fails_fails_each_of_its_messages(place: Place, wrong: str) -> None:
    async def scenario() -> None:
        worker = place.worker()

        @worker.subscriber(batch=3, concurrency=3, max_attempts=2, dead_letter=True)
        async def handle(numbers: list[int]) -> Any:
            if wrong == "raised":
                raise ValueError("all of them")
            return [] if wrong == "too few" else ["done"] * len(numbers)

        await publish(place, *((f"g{n}", n) for n in range(3)))
        async with serving(worker), place.connect() as transport:
            await until(lambda: worker.counts.dead == 3, "three dead letters")
            assert (worker.counts.failed, worker.counts.retried) == (6, 3)
            dead = await transport.dead_letters()
        assert [one.reason for one in dead] == ["failed after 2 attempts"] * 3
        said = {"raised": "all of them", "too few": "0 outcomes for", "no outcome": "an Outcome"}[wrong]
        assert all(one.error is not None and said in one.error for one in dead)

    run(scenario())


def test_an_outcome_raised_is_of_all(place: Place) -> None:
    async def scenario() -> None:
        worker = place.worker()

        @worker.subscriber(batch=3, concurrency=3)
        async def handle(numbers: list[int]) -> None:
            raise Drop

        await publish(place, *((f"g{n}", n) for n in range(3)))
        async with serving(worker):
            await until(lambda: worker.counts.dropped == 3, "three messages")

    run(scenario())


def test_a_lost_lease_of_a_batch(place: Place) -> None:
    async def scenario() -> None:
        batches: list[dict[str, int]] = []
        worker = place.worker(visibility=1)

        @worker.subscriber(batch=3, concurrency=3)
        async def handle(numbers: list[int], contexts: list[Context]) -> None:
            batches.append({ctx.group: ctx.attempt for ctx in contexts})
            if len(batches) == 1:
                await asyncio.sleep(60)

        await publish(place, *((f"g{n}", n) for n in range(3)))
        async with serving(worker), place.connect() as transport:
            await until(lambda: batches, "the batch")
            assert await transport.release("g1")
            await until(lambda: worker.counts.acked == 3, "all messages again")
            assert (worker.counts.lost, worker.counts.given_back, worker.counts.failed) == (1, 2, 0)
        assert batches[0] == {"g0": 1, "g1": 1, "g2": 1}
        # Those that were not lost are given back, and no attempt is spent.
        assert {group: attempt for batch in batches[1:] for group, attempt in batch.items()} == {
            "g0": 1,
            "g1": 2,
            "g2": 1,
        }

    run(scenario())


@pytest.mark.parametrize("raised", [False, True], ids=["returned", "raised"])
@pytest.mark.parametrize("each", [False, True], ids=["one for all", "one each"])
def test_what_is_written_with_an_ack_of_a_batch(place: Place, each: bool, raised: bool) -> None:
    async def scenario() -> None:
        worker = place.worker()

        @worker.subscriber(batch=3, concurrency=3, prefix="g", max_attempts=1, dead_letter=True)
        async def handle(numbers: list[int]) -> Any:
            if each:
                return [Ack(publish=[("sent", number)]) for number in numbers]
            if raised:
                raise Ack(publish=[("sent", 0)])
            return Ack(publish=[("sent", 0)])

        await publish(place, *((f"g{n}", n) for n in range(3)))
        async with serving(worker), place.connect() as transport:
            await until(lambda: _ended(worker) == 3, "three messages")
            sent = sorted(message.event for message in await transport.peek("sent"))
            dead = await transport.dead_letters()
        assert sent == ([0, 1, 2] if each else [])
        assert len(dead) == (0 if each else 3)
        assert all(one.error is not None and "one outcome for each" in one.error for one in dead)

    run(scenario())
