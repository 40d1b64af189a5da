"""`publish_soon` and `flush`: many messages on their way, none forgotten."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import rqfast
from tests.contract.views import Queue, run_async
from tests.script import run_python

WAIT = 30.0


def outcome(future: Any) -> Any:
    """The result of a future of either colour, waited for in this thread."""
    if not isinstance(future, asyncio.Future):
        return future.result(WAIT)

    async def wait() -> Any:
        return await asyncio.wait_for(asyncio.shield(future), WAIT)

    return run_async(wait(), "a message of publish_soon")


def drain(view: Any) -> list[Any]:
    events = []
    while (lease := view.claim("w")) is not None:
        events.append(lease.event)
        view.ack(lease)
    return events


def test_the_future_gives_the_seq(q: Queue) -> None:
    view = q.open()
    future = view.publish_soon("g", "a", rank=1, headers={"n": 1})
    assert outcome(future) == 1
    lease = view.claim("w")
    assert (lease.seq, lease.event, lease.rank, lease.headers) == (1, "a", 1, {"n": 1})


def test_it_arrives_without_flush_and_without_another_call(q: Queue) -> None:
    reader = q.open()
    q.open().publish_soon("g", "a")
    lease = reader.claim("w", wait=WAIT)
    assert lease is not None and lease.event == "a"


def test_order_holds_and_flush_waits_for_all(q: Queue) -> None:
    view = q.open(max_batch=50)
    futures = [view.publish_soon(f"g{n % 3}", n) for n in range(500)]
    view.flush()
    assert all(future.done() for future in futures)
    assert len({outcome(future) for future in futures}) == 500
    for group in range(3):
        seqs = [outcome(future) for future in futures[group::3]]
        assert seqs == sorted(seqs)
    view.flush()


def test_close_sends_what_is_on_its_way(q: Queue) -> None:
    writer = q.open()
    for n in range(200):
        writer.publish_soon("g", n)
    writer.close()
    assert q.sql(f"SELECT count(*) FROM {q.table('messages')}") == [(200,)]


def test_more_than_there_is_room_for(q: Queue) -> None:
    view = q.open(max_in_flight=8, max_batch=4)
    futures = [view.publish_soon("g", n) for n in range(300)]
    view.flush()
    assert [outcome(future) for future in futures] == list(range(1, 301))


def test_bad_input_is_refused_at_the_call(q: Queue) -> None:
    view = q.open()
    with pytest.raises(rqfast.InvalidMessage):
        view.publish_soon("", "a")
    with pytest.raises(TypeError):
        view.publish_soon("g", object())
    view.flush()
    assert view.claim("w") is None


def test_order_holds_between_publish_soon_and_publish(q: Queue) -> None:
    view = q.open()
    view.publish_soon("g", 1)
    view.publish_soon("g", 2)
    view.publish("g", 3)
    view.publish_soon("g", 4)
    view.flush()
    assert drain(view) == [1, 2, 3, 4]


def test_a_failure_is_told_by_the_future_and_by_flush_once(q: Queue) -> None:
    view = q.open()
    view.publish("g", 0)
    q.execute(f"ALTER TABLE {q.table('messages')} RENAME TO gone")
    future = view.publish_soon("g", 1)
    with pytest.raises(rqfast.RqfastError):
        outcome(future)
    with pytest.raises(rqfast.RqfastError) as caught:
        view.flush()
    assert any("1 of 1" in note for note in caught.value.__notes__)
    view.flush()
    q.execute(f"ALTER TABLE gone RENAME TO {q.table('messages')}")
    view.publish_soon("g", 2)
    view.flush()


def test_a_failure_that_nobody_flushed_is_told_by_close(q: Queue) -> None:
    view = q.open()
    view.publish("g", 0)
    q.execute(f"ALTER TABLE {q.table('messages')} RENAME TO gone")
    view.publish_soon("g", 1)
    with pytest.raises(rqfast.RqfastError):
        view.close()
    view.close()
    q.execute(f"ALTER TABLE gone RENAME TO {q.table('messages')}")


def test_a_dedup_id_counts_once(q: Queue) -> None:
    view = q.open()
    futures = [view.publish_soon("g", n, dedup_id="one") for n in range(5)]
    view.flush()
    assert {outcome(future) for future in futures} == {1}


def test_threads_share_it(q: Queue) -> None:
    view = q.open(max_in_flight=16)

    def work(group: str) -> None:
        for n in range(100):
            view.publish_soon(group, n)
        view.flush()

    threads = [threading.Thread(target=work, args=(f"g{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    rows = q.sql(f"SELECT group_id, event FROM {q.table('messages')} ORDER BY seq")
    for n in range(4):
        assert [int(event) for group, event in rows if group == f"g{n}"] == list(range(100))


def test_after_close_it_is_refused(q: Queue) -> None:
    view = q.open()
    view.publish("g", 0)
    view.close()
    with pytest.raises(rqfast.Closed):
        view.publish_soon("g", 1)


def test_a_cancelled_future_is_no_failure(q: Queue) -> None:
    view = q.open()
    futures = [view.publish_soon("g", n) for n in range(20)]

    async def cancel() -> list[bool]:
        return [future.cancel() for future in futures]

    gone = run_async(cancel(), "cancel") if isinstance(futures[0], asyncio.Future) else [f.cancel() for f in futures]
    view.flush()
    there = q.sql(f"SELECT count(*) FROM {q.table('messages')}")[0][0]
    assert there >= gone.count(False)


def test_what_ended_a_block_is_not_hidden_by_a_failure(q: Queue, caplog: pytest.LogCaptureFixture) -> None:
    messages = q.table("messages")

    async def on_loop() -> None:
        async with rqfast.connect_async(q.url, **q.options) as queue:
            await queue.publish("g", 0)
            q.execute(f"ALTER TABLE {messages} RENAME TO gone")
            await queue.publish_soon("g", 1)
            raise ZeroDivisionError

    def block() -> None:
        if q.colour == "async":
            run_async(on_loop(), "a block that fails")
        with rqfast.connect(q.url, **q.options) as queue:
            queue.publish("g", 0)
            q.execute(f"ALTER TABLE {messages} RENAME TO gone")
            queue.publish_soon("g", 1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        block()
    q.execute(f"ALTER TABLE gone RENAME TO {messages}")
    assert any(record.levelname == "ERROR" for record in caplog.records)


def test_waiting_in_a_callback_is_refused(q: Queue) -> None:
    if q.colour == "async":
        pytest.skip("async: flush does not block")
    view = q.open()
    told: list[BaseException] = []
    done = threading.Event()

    def callback(future: object) -> None:
        try:
            view.publish_soon("g", 2)
            view.flush()
        except rqfast.RqfastError as error:
            told.append(error)
        done.set()

    view.publish_soon("g", 1).add_done_callback(callback)
    assert done.wait(WAIT), "the callback"
    assert len(told) == 1
    view.flush()


def test_what_stood_in_line_at_close_is_told(q: Queue) -> None:
    if q.colour == "sync":
        pytest.skip("sync: the caller itself waits for room")

    async def work() -> None:
        queue: Any = await rqfast.connect_async(q.url, max_in_flight=1, **q.options)
        rooms = [queue.publish_soon("g", n) for n in range(5)]
        with pytest.raises(rqfast.RqfastError):
            await queue.close()
        assert sum(room.exception() is not None for room in rooms) >= 1

    run_async(work(), "a close with messages in line")


def test_a_script_that_ends_has_sent_all(q: Queue, tmp_path: Path) -> None:
    if q.colour == "async":
        pytest.skip("async: the loop ends first, so it is closed or flushed by hand")
    script = (
        f"import rqfast; t = rqfast.connect({q.url!r}, **{q.options!r})\nfor n in range(3000): t.publish_soon('g', n)"
    )
    ran = run_python(tmp_path, "-c", script)
    assert ran.returncode == 0, ran.stderr
    assert q.sql(f"SELECT count(*) FROM {q.table('messages')}") == [(3000,)]
