"""What becomes of messages whose handlers fail, and what commits with those that do not."""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rqfast import (
    Ack,
    Context,
    Dead,
    Drop,
    Event,
    Exponential,
    Hooks,
    Message,
    Outcome,
    Retry,
    RetryAfter,
    Worker,
)
from tests.contract.views import Clock
from tests.subscriptions.place import SECONDS, Place, run, serving, until


@dataclass
class Order:
    number: int


def ended(worker: Worker) -> int:
    counts = worker.counts
    return counts.acked + counts.dropped + counts.dead


# -- on_error ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("awaited", [False, True], ids=["plain", "async"])
def test_on_error_says_what_becomes_of_a_failure(place: Place, awaited: bool) -> None:
    async def scenario() -> None:
        asked: list[tuple[str, str, int]] = []
        outcomes: dict[str, Outcome | None] = {
            "ack": Ack(),
            "drop": Drop(),
            "dead": Dead("by on_error"),
            "retry": Retry(),
            "later": RetryAfter(0.01),
            "usual": None,
        }
        worker = place.worker()

        def on_error(error: BaseException, ctx: Context) -> Outcome | None:
            asked.append((ctx.group, str(error), ctx.attempt))
            return outcomes[ctx.group]

        async def on_error_later(error: BaseException, ctx: Context) -> Outcome | None:
            await asyncio.sleep(0)
            return on_error(error, ctx)

        @worker.subscriber(max_attempts=3, dead_letter=True, on_error=on_error_later if awaited else on_error)
        async def handle(number: int, ctx: Context) -> None:
            if ctx.attempt == 1 or ctx.group == "usual":
                raise ValueError(f"no {number}")

        async with place.connect() as transport:
            await transport.publish_many((group, 7) for group in outcomes)
            async with serving(worker):
                await until(lambda: ended(worker) == 6, "six messages")
                counts = worker.counts
            dead = {one.group_id: one for one in await transport.dead_letters()}
        assert (counts.acked, counts.dropped, counts.dead, counts.failed) == (3, 1, 2, 8)
        assert sorted(asked) == sorted(
            [*((group, "no 7", 1) for group in outcomes), *(("usual", "no 7", n) for n in (2, 3))]
        )
        assert (dead["dead"].reason, dead["dead"].error) == ("by on_error", "ValueError: no 7")
        assert (dead["usual"].reason, dead["usual"].error) == ("failed after 3 attempts", "ValueError: no 7")

    run(scenario())


@pytest.mark.parametrize("wrong", ["raises", "no outcome", "a class", "an Ack that cannot be"])
def test_an_on_error_that_fails_leaves_the_usual_way(
    place: Place, wrong: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        worker = place.worker()

        def on_error(error: BaseException, ctx: Context) -> Any:
            if wrong == "raises":
                raise KeyError("in on_error")
            if wrong == "an Ack that cannot be":
                return Ack(with_statements=[["INSERT INTO no_such_table VALUES(1)"]])
            return "retry" if wrong == "no outcome" else Retry

        @worker.subscriber(max_attempts=2, dead_letter=True, on_error=on_error)
        async def handle(number: int) -> None:
            raise ValueError("no")

        async with place.connect() as transport:
            await transport.publish("a", 1)
            async with serving(worker):
                await until(lambda: worker.counts.dead == 1, "the dead letter")
            (dead,) = await transport.dead_letters()
        assert (dead.attempts, dead.reason) == (2, "failed after 2 attempts")
        assert dead.error is not None
        assert ("no_such_table" in dead.error) is (wrong == "an Ack that cannot be")

    with caplog.at_level(logging.ERROR, "rqfast.worker"):
        run(scenario())
    assert ("on_error failed" in caplog.text) is (wrong != "an Ack that cannot be")


def test_how_many_attempts_are_left_is_logged(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        worker = place.worker()

        @worker.subscriber(max_attempts=3, dead_letter=True, backoff=0)
        async def handle(number: int) -> None:
            raise ValueError("no")

        async with place.connect() as transport:
            await transport.publish("a", 1)
            async with serving(worker):
                await until(lambda: worker.counts.dead == 1, "the dead letter")

    with caplog.at_level(logging.ERROR, "rqfast.worker"):
        run(scenario())
    for told in (
        "it goes again, 2 attempts are left",
        "it goes again, 1 attempt is left",
        "given up, after 3 attempts",
    ):
        assert told in caplog.text


def test_the_log_tells_what_becomes_of_a_message_after_on_error(
    embedded_place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    outcomes = {"ack": Ack(), "drop": Drop(), "dead": Dead("no use"), "retry": Retry(), "usual": None}

    async def scenario() -> dict[str, int]:
        worker = embedded_place.worker()

        @worker.subscriber(max_attempts=2, dead_letter=True, backoff=0, on_error=lambda _, ctx: outcomes[ctx.group])
        async def handle(number: int) -> None:
            raise ValueError("no")

        async with embedded_place.connect() as transport:
            seqs = {group: await transport.publish(group, 1) for group in outcomes}
            async with serving(worker):
                await until(lambda: ended(worker) == len(outcomes), "five messages")
        return seqs

    with caplog.at_level(logging.WARNING, "rqfast.worker"):
        seqs: dict[str, int] = run(scenario())
    told = [one.getMessage() for one in caplog.records if "after on_error" in one.getMessage()]
    for group, attempt, what in (
        ("ack", 1, "it is done"),
        ("drop", 1, "it is dropped"),
        ("dead", 1, "it goes to the dead letters: 'no use'"),
        ("retry", 1, "it goes again, 1 attempt is left"),
        ("retry", 2, "it is given up, after 2 attempts"),
        ("usual", 1, "it goes again, 1 attempt is left"),
        ("usual", 2, "it is given up, after 2 attempts"),
    ):
        line = f"handle: after on_error, of message {seqs[group]} of group {group!r} (attempt {attempt}): {what}"
        assert told.count(line) == 1, told
    assert len(told) == 7


def test_a_message_that_was_given_back_too_often_before_is_not_tried(
    embedded_place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> int:
        worker = embedded_place.worker()
        handled: list[int] = []

        @worker.subscriber(max_attempts=3, dead_letter=True)
        async def handle(number: int) -> None:
            handled.append(number)

        async with embedded_place.connect() as transport:
            seq: int = await transport.publish("crm", 1)
            for _ in range(4):
                await transport.nack(await transport.claim("me", SECONDS), 0)
            async with serving(worker):
                await until(lambda: worker.counts.dead == 1, "the dead letter")
            (dead,) = await transport.dead_letters()
        reason = "delivered 4 times before, and max_attempts is 3: not tried again"
        assert (dead.attempts, dead.reason, handled) == (5, reason, [])
        return seq

    with caplog.at_level(logging.WARNING, "rqfast.worker"):
        seq = run(scenario())
    (line,) = [one for one in caplog.records if "not tried again" in one.getMessage()]
    assert f"message {seq} of group 'crm' (attempt 5): it goes to the dead letters: 'delivered" in line.getMessage()
    assert (line.__dict__["group"], line.__dict__["seq"], line.__dict__["attempt"]) == ("crm", seq, 5)


@pytest.mark.parametrize(
    ("options", "goes"),
    [
        ({"max_attempts": 3, "dead_letter": True}, "it goes to the dead letters: 'undecodable'"),
        ({"max_attempts": 3, "dead_letter": "bad"}, "it goes to group 'bad' as a dead letter: 'undecodable'"),
        ({"on_undecodable": Drop()}, "it is dropped"),
    ],
)
def test_the_log_tells_what_becomes_of_what_cannot_be_decoded(
    embedded_place: Place, options: dict[str, Any], goes: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        def refuse(text: str) -> object:
            raise ValueError("\x1b[31mred")

        worker = embedded_place.worker()

        @worker.subscriber(group="crm", decode=refuse, **options)
        async def handle(number: int) -> None:
            raise AssertionError("it cannot be decoded")

        async with embedded_place.connect() as transport:
            await transport.publish("crm", 1)
            async with serving(worker):
                await until(lambda: ended(worker) == 1, "the message")

    with caplog.at_level(logging.ERROR, "rqfast.worker"):
        run(scenario())
    assert f"could not be decoded, {goes}: ValueError: \\x1b[31mred" in caplog.text
    assert "\x1b" not in caplog.text


# -- back-off ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backoff", "pauses"),
    [
        (10, [10, 10, 10]),
        (lambda attempt: 5 * attempt, [5, 10, 15]),
        (Exponential(first=2, factor=3, most=9, jitter=0), [2, 6, 9]),
    ],
    ids=["seconds", "function", "Exponential"],
)
def test_backoff_holds_the_group(place: Place, backoff: Any, pauses: list[float]) -> None:
    async def scenario() -> None:
        clock = Clock()
        seen: list[int] = []
        worker = place.worker(clock=clock, visibility=600)

        @worker.subscriber(max_attempts=5, dead_letter=True, backoff=backoff)
        async def handle(number: int, ctx: Context) -> None:
            seen.append(number)
            if ctx.attempt <= 3 and number == 1:
                raise ValueError("not yet")

        async with place.connect(clock=clock) as transport:
            await transport.publish_many([("a", 1), ("a", 2)])
            async with serving(worker):
                for n, pause in enumerate(pauses):
                    await until(lambda: worker.counts.retried == n + 1, f"failure {n + 1}")  # noqa: B023
                    (group,) = await transport.groups()
                    assert group.state == "parked" and group.until is not None
                    assert group.until - clock() == pytest.approx(pause, abs=0.01)
                    clock.advance(pause + 0.01)
                await until(lambda: worker.counts.acked == 2, "both messages")
        assert seen == [1, 1, 1, 1, 2]

    run(scenario())


def test_a_backoff_that_fails(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        worker = place.worker()

        @worker.subscriber(max_attempts=2, dead_letter=True, backoff=lambda attempt: -1)
        async def handle(number: int) -> None:
            raise ValueError("no")

        async with serving(worker):
            await worker.publish("a", 1)
            await until(lambda: worker.counts.dead == 1, "the dead letter")

    with caplog.at_level(logging.ERROR, "rqfast.worker"):
        run(scenario())
    assert "backoff failed, the message goes again at once" in caplog.text


# -- payloads that cannot be decoded ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "attempts", "reason"),
    [
        ({"max_attempts": 3, "dead_letter": True}, 1, "undecodable"),
        ({"max_attempts": 3, "dead_letter": True, "on_undecodable": Dead("garbage")}, 1, "garbage"),
        ({"on_undecodable": Dead("garbage")}, 1, "garbage"),
        ({"max_attempts": 3, "dead_letter": True, "on_undecodable": Retry()}, 3, "not done after 3 attempts"),
        ({"on_undecodable": Drop()}, None, None),
    ],
    ids=["with a cap", "Dead and a cap", "Dead", "Retry", "Drop"],
)
def test_payloads_that_cannot_be_decoded(
    place: Place, options: dict[str, Any], attempts: int | None, reason: str | None
) -> None:
    async def scenario() -> None:
        seen: list[int] = []
        worker = place.worker()

        @worker.subscriber(**options)
        async def handle(order: Order) -> None:
            seen.append(order.number)

        async with place.connect() as transport:
            await transport.publish_many([("a", {"amount": 1}), ("a", {"number": 2})])
            async with serving(worker):
                await until(lambda: ended(worker) == 2, "both messages")
                assert (worker.counts.dropped, worker.counts.failed) == (0 if reason else 1, 0)
            dead = await transport.dead_letters()
        assert seen == [2]
        assert [(one.attempts, one.reason) for one in dead] == ([(attempts, reason)] if reason else [])

    run(scenario())


def test_without_a_cap_it_is_tried_again_after_a_lease(place: Place) -> None:
    async def scenario() -> None:
        clock = Clock()
        worker = place.worker(clock=clock, visibility=20)

        @worker.subscriber()
        async def handle(order: Order) -> None:
            pass

        async with place.connect(clock=clock) as transport:
            await transport.publish("a", {"amount": 1})
            async with serving(worker):
                await until(lambda: worker.counts.retried == 1, "the first delivery")
                (group,) = await transport.groups()
                assert group.state == "parked" and group.until is not None
                assert group.until - clock() == pytest.approx(20, abs=0.01)
                clock.advance(21)
                await until(lambda: worker.counts.retried == 2, "the second delivery")

    run(scenario())


def test_text_that_is_no_json_goes_to_the_dead_letters_whatever_group_was_named(place: Place) -> None:
    """A program that inserts by its own SQL may write anything; a group takes only JSON."""

    async def scenario() -> None:
        worker = place.worker()

        @worker.subscriber(group="crm", max_attempts=3, dead_letter="graves")
        async def handle(order: Order) -> None:
            pass

        async with place.connect() as transport:
            await transport.publish_many([("crm", {"number": 1}), ("crm", {"number": 2})])
            place.execute(f"UPDATE {place.table('messages')} SET event='no {{ JSON' WHERE event LIKE '%1%'")
            async with serving(worker):
                await until(lambda: ended(worker) == 2, "both messages")
                assert (worker.counts.acked, worker.counts.dead) == (1, 1)
            (dead,) = await transport.dead_letters()
        assert (dead.raw, dead.reason) == ("no { JSON", "undecodable")

    run(scenario())


def test_a_long_reason_in_another_group(place: Place) -> None:
    async def scenario() -> None:
        found: list[Any] = []
        worker = place.worker()

        @worker.subscriber(group="crm")
        async def handle(number: int) -> Outcome:
            return Dead("x" * 100_000)

        @worker.subscriber(group="small", max_attempts=1, dead_letter="graves", name="small")
        async def small(number: int) -> Outcome:
            return Dead("x" * 100_000)

        @worker.subscriber(group="large", max_attempts=1, dead_letter="graves", name="large")
        async def large(number: int) -> Outcome:
            raise ValueError("y" * 100_000)

        @worker.subscriber(group="graves", name="graves")
        async def graves(number: int, ctx: Context) -> None:
            found.append((ctx.headers["dead_group"], len(str(ctx.headers["dead_reason"]))))

        async with serving(worker), place.connect() as transport:
            for group in ("crm", "small"):
                await transport.publish(group, 1)
            # Nothing more has room beside these headers.
            await transport.publish("large", 1, headers={"h": "h" * 65_000})
            await until(lambda: worker.counts.dead == 3 and found, "three dead letters, one in a group")
            dead = {one.group_id: one for one in await transport.dead_letters()}
        assert found == [("small", 2000)]
        assert dead["crm"].reason == "x" * 100_000
        assert dead["large"].error is not None and dead["large"].error.startswith("ValueError: yyy")

    run(scenario())


def test_dead_letters_in_a_group_of_a_queue_with_an_encoder(place: Place) -> None:
    async def scenario() -> None:
        found: list[Any] = []
        codec: dict[str, Callable[[Any], Any]] = {
            "encode": lambda event: f'["{event}"]',
            "decode": lambda raw: raw[2:-2],
        }
        worker = place.worker(**codec)

        @worker.subscriber(group="crm", max_attempts=1, dead_letter="graves")
        async def handle(event: Any) -> None:
            raise ValueError("no")

        @worker.subscriber(group="graves")
        async def graves(event: Any) -> None:
            found.append(event)

        async with serving(worker):
            await worker.publish("crm", "text")
            await until(lambda: found, "the dead letter")
        assert found == ["text"]

    run(scenario())


# -- what commits with an Ack -----------------------------------------------------------------------------


def made_table(place: Place) -> str:
    """A table of the user's own."""
    name = f"rqfast_{place.queue}_own"  # so that it goes with the queue
    place.execute(f"CREATE TABLE {name}(id INTEGER PRIMARY KEY, what TEXT NOT NULL UNIQUE)")
    return name


def test_statements_and_messages_commit_with_the_ack(place: Place) -> None:
    async def scenario() -> None:
        table = made_table(place)
        worker = place.worker()

        @worker.subscriber(group="crm")
        async def handle(number: int) -> Ack:
            return Ack(
                publish=[("next", number), Message("next", -number, headers={"h": 1})],
                with_statements=[[f"INSERT INTO {table}(what) VALUES(?)", f"order {number}"]],
            )

        async with serving(worker), place.connect() as transport:
            await transport.publish_many(("crm", n) for n in (1, 2))
            await until(lambda: worker.counts.acked == 2, "both messages")
            assert [(one.event, one.headers) for one in await transport.peek("next")] == [
                (1, {}), (-1, {"h": 1}), (2, {}), (-2, {"h": 1}),
            ]  # fmt: skip
        assert place.sql(f"SELECT what FROM {table} ORDER BY id") == [("order 1",), ("order 2",)]

    run(scenario())


@pytest.mark.parametrize(
    "bad",
    [
        ["INSERT INTO {table}(what) VALUES(NULL)"],
        ["INSERT INTO no_such_table VALUES(1)"],
        ["INSRT INTO {table}(what) VALUES('x')"],
        ["INSERT INTO {table}(what) VALUES(?)", object()],
        ["COMMIT"],
    ],
    ids=["it fails", "it does not prepare", "it is no SQL", "a value that cannot be stored", "it ends the transaction"],
)
@pytest.mark.parametrize("first", [False, True], ids=["last", "first"])
def test_a_statement_that_fails_takes_all_with_it(place: Place, bad: list[Any], first: bool) -> None:
    async def scenario() -> None:
        table = made_table(place)
        good = [f"INSERT INTO {table}(what) VALUES('good')"]
        wrong = [bad[0].format(table=table), *bad[1:]]
        attempts: list[int] = []
        worker = place.worker()

        @worker.subscriber(group="crm", max_attempts=3, dead_letter=True)
        async def handle(number: int, ctx: Context) -> Ack:
            if number == 2:
                return Ack()
            attempts.append(ctx.attempt)
            return Ack(publish=[("next", number)], with_statements=[wrong, good] if first else [good, wrong])

        async with serving(worker), place.connect() as transport:
            await transport.publish_many([("crm", 1), ("crm", 2)])
            await until(lambda: ended(worker) == 2, "both messages")
            assert (worker.counts.acked, worker.counts.dead, worker.counts.failed) == (1, 1, 3)
            (dead,) = await transport.dead_letters()
            assert await transport.peek("next") == []
        assert attempts == [1, 2, 3]
        assert (dead.event, dead.attempts, dead.reason) == (1, 3, "failed after 3 attempts")
        assert dead.error is not None
        assert place.sql(f"SELECT count(*) FROM {table}") == [(0,)]

    run(scenario())


def test_a_message_that_cannot_be_published_takes_all_with_it(place: Place) -> None:
    async def scenario() -> None:
        table = made_table(place)
        worker = place.worker()

        @worker.subscriber(group="crm", max_attempts=2, dead_letter=True)
        async def handle(number: int, ctx: Context) -> Ack:
            return Ack(publish=[("", 1)], with_statements=[[f"INSERT INTO {table}(what) VALUES('x')"]])

        async with serving(worker), place.connect() as transport:
            await transport.publish("crm", 1)
            await until(lambda: worker.counts.dead == 1, "the dead letter")
            (dead,) = await transport.dead_letters()
        assert dead.attempts == 2 and dead.error is not None and dead.error.startswith("InvalidMessage: ")
        assert place.sql(f"SELECT count(*) FROM {table}") == [(0,)]

    run(scenario())


def test_nothing_commits_when_the_lease_was_lost(place: Place) -> None:
    async def scenario() -> None:
        table = made_table(place)
        begun, go = asyncio.Event(), asyncio.Event()
        worker = place.worker(visibility=600)

        @worker.subscriber(group="crm")
        async def handle(number: int, ctx: Context) -> Ack:
            if ctx.attempt == 1:
                begun.set()
                await go.wait()
            return Ack(
                publish=[("next", ctx.attempt)],
                with_statements=[[f"INSERT INTO {table}(what) VALUES(?)", f"attempt {ctx.attempt}"]],
            )

        async with serving(worker), place.connect() as transport:
            await transport.publish("crm", 1)
            await asyncio.wait_for(begun.wait(), SECONDS)
            assert await transport.release("crm")
            go.set()
            await until(lambda: worker.counts.acked == 1 and worker.counts.lost == 1, "the second delivery")
            assert [one.event for one in await transport.peek("next")] == [2]
        assert place.sql(f"SELECT what FROM {table}") == [("attempt 2",)]

    run(scenario())


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
def test_a_transactional_handler(place: Place, plain: bool) -> None:
    async def scenario() -> None:
        table = made_table(place)
        worker = place.worker()

        def collect(number: int, ctx: Context) -> Outcome | None:
            ctx.execute(f"INSERT INTO {table}(what) VALUES(?)", f"order {number} {ctx.attempt}")
            ctx.publish(("next", number), Message("next", -number))
            if number == 1 and ctx.attempt == 1:
                raise ValueError("what it collected goes")
            if number == 2:
                return Ack(with_statements=[[f"INSERT INTO {table}(what) VALUES('more')"]])
            return Drop() if number == 3 else None

        async def handle(number: int, ctx: Context) -> Outcome | None:
            return collect(number, ctx)

        def handle_plainly(number: int, ctx: Context) -> Outcome | None:
            return collect(number, ctx)

        worker.subscriber(group="crm", transactional=True)(handle_plainly if plain else handle)
        async with serving(worker), place.connect() as transport:
            await transport.publish_many(("crm", n) for n in (1, 2, 3))
            await until(lambda: ended(worker) == 3, "three messages")
            assert [one.event for one in await transport.peek("next")] == [1, -1, 2, -2]
        assert place.sql(f"SELECT what FROM {table} ORDER BY id") in (
            [("order 1 2",), ("more",), ("order 2 1",)],
            [("order 1 2",), ("order 2 1",), ("more",)],
        )

    run(scenario())


def test_what_a_failed_handler_collected_is_not_committed_by_on_error(place: Place) -> None:
    async def scenario() -> None:
        worker = place.worker()

        @worker.subscriber(group="crm", transactional=True, on_error=lambda error, ctx: Ack())
        async def handle(number: int, ctx: Context) -> None:
            ctx.publish(("next", number))
            raise ValueError("half-way")

        async with serving(worker), place.connect() as transport:
            await transport.publish("crm", 1)
            await until(lambda: worker.counts.acked == 1, "the message")
            assert await transport.peek("next") == []

    run(scenario())


def test_collecting_is_declared(embedded_place: Place) -> None:
    async def scenario() -> None:
        worker = embedded_place.worker()
        errors: list[BaseException] = []

        def on_error(error: BaseException, ctx: Context) -> Outcome:
            errors.append(error)
            return Drop()

        @worker.subscriber(on_error=on_error)
        async def handle(number: int, ctx: Context) -> None:
            if number == 1:
                ctx.publish(("next", 1))
            ctx.execute("SELECT 1")

        async with serving(worker):
            await worker.publish("a", 1)
            await worker.publish("a", 2)
            await until(lambda: worker.counts.dropped == 2, "both messages")
        assert "ctx.publish()" in str(errors[0]) and "ctx.execute()" in str(errors[1])
        assert all("transactional=True" in str(error) for error in errors)

    run(scenario())


# -- exceptions, hooks, logs ------------------------------------------------------------------------------


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Odd(), "Odd: (its text cannot be told: RuntimeError)"),
        (ValueError("x" * 10_000), "ValueError: " + "x" * 1986 + ".."),
        (StopIteration("over"), None),
        (ValueError(), "ValueError"),
    ],
    ids=["no text", "long", "StopIteration", "empty"],
)
def test_the_text_of_an_exception_is_recorded(
    place: Place, error: Exception, text: str | None, plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        worker = place.worker()

        async def handle(number: int) -> None:
            raise error

        def handle_plainly(number: int) -> None:
            raise error

        handler = handle_plainly if plain else handle
        worker.subscriber(name="handle", max_attempts=1, dead_letter=True)(handler)
        async with serving(worker), place.connect() as transport:
            seq = await worker.publish("a", 1)
            await until(lambda: worker.counts.dead == 1, "the dead letter")
            (dead,) = await transport.dead_letters()
        assert dead.error is not None and dead.error.replace("test_failures.", "") == (text or dead.error)
        if text is None:
            assert "StopIteration" in dead.error
        (line,) = [one for one in caplog.records if one.exc_info]
        assert f"message {seq} of group 'a' (attempt 1)" in line.getMessage()
        assert (line.group, line.seq, line.attempt) == ("a", seq, 1)  # type: ignore[attr-defined]

    with caplog.at_level(logging.ERROR, "rqfast.worker"):
        run(scenario())


def test_odd_letters_of_an_exception_are_recorded(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        worker = place.worker()

        @worker.subscriber(max_attempts=1, dead_letter=True)
        async def handle(number: int) -> None:
            raise ValueError("a\ud800b\0")

        async with serving(worker), place.connect() as transport:
            await worker.publish("a", 1)
            await until(lambda: worker.counts.dead == 1, "the dead letter")
            (dead,) = await transport.dead_letters()
        assert dead.error == "ValueError: a\\ud800b\\x00"

    # What pytest would report of the log no pipe can carry.
    with caplog.at_level(logging.CRITICAL, "rqfast.worker"):
        run(scenario())


class Seen(Hooks):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Event]] = []

    def published(self, event: Event) -> None:
        self.events.append(("published", event))

    def claimed(self, event: Event) -> None:
        self.events.append(("claimed", event))

    def settled(self, event: Event) -> None:
        self.events.append(("settled", event))

    def lost(self, event: Event) -> None:
        self.events.append(("lost", event))

    def extended(self, event: Event) -> None:
        self.events.append(("extended", event))

    def of(self, what: str) -> list[Event]:
        return [event for name, event in self.events if name == what]


class Broken(Hooks):
    """Each of its methods fails."""

    def published(self, event: Event) -> None:
        raise ValueError("published")

    claimed = settled = lost = extended = published


def test_hooks(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        seen = Seen()
        worker = place.worker(visibility=0.5, hooks=[Broken(), seen])

        @worker.subscriber(prefix="g", max_attempts=2, dead_letter=True)
        async def handle(what: str, ctx: Context) -> Outcome | None:
            if what == "long" and ctx.attempt == 1:
                await asyncio.sleep(SECONDS)
            outcomes: dict[str, Outcome] = {"drop": Drop(), "dead": Dead("no"), "later": RetryAfter(0.05)}
            return outcomes.get(what) if ctx.attempt == 1 else None

        async with serving(worker), place.connect() as transport:
            seqs = {}
            for n, what in enumerate(("ack", "drop", "dead", "later", "long")):
                seqs[what] = await worker.publish(f"g{n}", what, headers={"trace": what})
            await until(lambda: ended(worker) == 4 and seen.of("extended"), "four messages, and an extension")
            assert await transport.release("g4")
            await until(lambda: ended(worker) == 5, "the fifth")
        assert [(event.group, event.seq, event.attempt) for event in seen.of("published")] == [
            (f"g{n}", seq, 0) for n, seq in enumerate(seqs.values())
        ]
        claimed = sorted((event.group, event.attempt) for event in seen.of("claimed"))
        assert claimed == [("g0", 1), ("g1", 1), ("g2", 1), ("g3", 1), ("g3", 2), ("g4", 1), ("g4", 2)]
        settled = sorted((event.group, event.attempt, event.outcome, event.delay) for event in seen.of("settled"))
        assert settled == [
            ("g0", 1, "Ack", 0), ("g1", 1, "Drop", 0), ("g2", 1, "Dead", 0), ("g3", 1, "RetryAfter", 0.05),
            ("g3", 2, "Ack", 0), ("g4", 2, "Ack", 0),
        ]  # fmt: skip
        assert [(event.group, event.seq, event.attempt) for event in seen.of("lost")] == [("g4", seqs["long"], 1)]
        assert {(event.group, event.attempt) for event in seen.of("extended")} == {("g4", 1)}
        assert all(event.subscription == "handle" for name, event in seen.events if name != "published")
        assert {event.headers["trace"] for event in seen.of("settled")} == set(seqs)
        for name in ("published", "settled", "lost", "extended"):
            assert all(event.seconds is not None and event.seconds >= 0 for event in seen.of(name)), name

    with caplog.at_level(logging.ERROR, "rqfast.worker"):
        run(scenario())
    for name in ("published", "claimed", "settled", "lost", "extended"):
        assert f"a hook failed: Broken.{name}" in caplog.text


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
def test_lines_of_the_log_say_of_which_message_they_are(
    embedded_place: Place, plain: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> int | None:
        worker = embedded_place.worker()

        async def handle(number: int, ctx: Context) -> None:
            ctx.log.info("number %d", number, extra={"mine": 7})

        def handle_plainly(number: int, ctx: Context) -> None:
            ctx.log.info("number %d", number, extra={"mine": 7})

        worker.subscriber()(handle_plainly if plain else handle)
        async with serving(worker):
            seq = await worker.publish("crm", 3)
            await until(lambda: worker.counts.acked == 1, "the message")
        return seq

    with caplog.at_level(logging.INFO, "rqfast.worker"):
        seq = run(scenario())
    (line,) = [one for one in caplog.records if hasattr(one, "mine")]
    assert line.getMessage() == f"[group 'crm' seq {seq} attempt 1] number 3"
    assert (line.name, line.group, line.seq, line.attempt) == ("rqfast.worker", "crm", seq, 1)  # type: ignore[attr-defined]


def test_a_subscription_without_a_cap_says_so_once_at_the_start(
    embedded_place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        worker = embedded_place.worker()
        for name, options in (("uncapped", {}), ("capped", {"max_attempts": 3, "dead_letter": True})):
            worker.subscriber(group=name, name=name, **options)(_nothing)
        async with serving(worker):
            for n in range(3):
                await worker.publish("uncapped", n)
            await until(lambda: worker.counts.acked == 3, "the messages")

    with caplog.at_level(logging.INFO, "rqfast.worker"):
        run(scenario())
    lines = [one.getMessage() for one in caplog.records if "max_attempts" in one.getMessage()]
    assert lines == ["uncapped: no max_attempts= and dead_letter=: a message that keeps failing holds its group back"]


async def _nothing(payload: Any) -> None:
    pass


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
def test_sys_exit_in_a_handler_is_a_failure_and_ends_no_worker(embedded_place: Place, plain: bool) -> None:
    async def scenario() -> None:
        worker = embedded_place.worker()

        def leave(number: int) -> None:
            if number == 1:
                sys.exit(3)

        async def leave_async(number: int) -> None:
            leave(number)

        worker.subscriber(group="crm", max_attempts=1, dead_letter=True)(leave if plain else leave_async)
        async with embedded_place.connect() as transport:
            await transport.publish_many([("crm", 1), ("crm", 2)])
            async with serving(worker):
                await until(lambda: worker.counts.acked == 1, "the message behind")
            (dead,) = await transport.dead_letters()
        assert dead.error == "SystemExit: 3"

    run(scenario())


# -- what is logged ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", ["async", "plain", "returns nonsense"])
def test_the_traceback_begins_at_the_handler(
    embedded_place: Place, caplog: pytest.LogCaptureFixture, colour: str
) -> None:
    worker = embedded_place.worker()

    async def waits(event: Any) -> Any:
        if colour == "async":
            raise OSError("no disk")
        return 7  # no outcome

    def plain(event: Any) -> None:
        raise OSError("no disk")

    worker.subscriber(max_attempts=1, dead_letter=True)(plain if colour == "plain" else waits)

    async def scenario() -> None:
        async with serving(worker):
            await worker.publish("g", 1)
            await until(lambda: worker.counts.dead == 1, "a failure")

    run(scenario())
    (failure,) = [one for one in caplog.records if "the handler failed" in one.message]
    assert failure.exc_info is not None
    names = [frame.name for frame in traceback.extract_tb(failure.exc_info[2])]
    # What the worker says of a handler is raised in the worker.
    assert names == {"async": ["waits"], "plain": ["plain"]}.get(colour, names) and names


def test_the_start_says_which_queue(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "rqfast.worker")
    path = tmp_path / "jobs.db"

    async def scenario() -> None:
        for queue in (None, "work"):
            worker = Worker(str(path), queue=queue)
            worker.subscriber()(lambda event: None)
            async with serving(worker):
                pass

    run(scenario())
    said = [one.message.partition(" on ")[2] for one in caplog.records if " serves " in one.message]
    assert [one.rpartition(" on ")[2] for one in said] == [f"the default queue of {path}", f"queue work in {path}"]
