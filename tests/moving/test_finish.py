"""`rqfast schema finish`: the last old worker is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import rqfast
from bench.reference import Event
from tests.contract.test_schema import make_old
from tests.moving.conftest import MixedQueue
from tests.moving.test_upgrade import triggers


def schema(url: str, command: str, *arguments: str) -> str:
    """What the command prints."""
    source = str(Path(rqfast.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-m", "rqfast.cli", "schema", command, "--url", url, *arguments],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_finish_drops_the_triggers_and_may_be_repeated(any_q: MixedQueue) -> None:
    make_old(any_q)
    view = any_q.open()
    assert "let in: all 9 triggers stand" in schema(any_q.url, "show")
    assert schema(any_q.url, "finish").startswith("Done")
    assert triggers(any_q) == 0
    assert schema(any_q.url, "finish").startswith("Nothing to do")
    assert "not let in" in schema(any_q.url, "show")
    # What was open goes on, and what is opened now does not bring them back.
    for transport in (view, any_q.open()):
        transport.publish("g", 1)
        lease = transport.claim("w", 60)
        assert lease is not None
        transport.nack(lease)
        lease = transport.claim("w", 60)
        assert lease is not None
        transport.ack(lease)
    assert triggers(any_q) == 0
    assert any_q.sql("SELECT count(*) FROM messages") == [(0,)]


def test_finish_while_workers_of_rqfast_are_at_work(any_q: MixedQueue) -> None:
    view = any_q.open()
    view.publish_many((f"g{n % 20}", n) for n in range(300))
    done: list[int] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            lease = view.claim("w", 600)
            while lease is not None:
                done.append(lease.event)
                lease = view.claim("w", 600, ack=lease)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    schema(any_q.url, "finish")
    for thread in threads:
        thread.join(60)
    assert errors == []
    # A worker may find nothing while the others hold the last groups.
    rest = view.claim_many("w", 600, 100)
    assert sorted(done + [lease.event for lease in rest]) == list(range(300))


def test_finish_warns_of_old_workers_that_are_still_at_work(q: MixedQueue) -> None:
    plain = q.open_plain()
    plain.publish("g", Event(1))
    q.open()
    assert plain.claim("old", 600.0) is not None
    assert "1 messages are in their work" in schema(q.url, "show")
    assert "still held 1 messages" in schema(q.url, "finish")


def test_a_queue_with_a_name_has_no_triggers(any_q: MixedQueue) -> None:
    any_q.open(queue="orders")
    assert triggers(any_q) == 0
    with pytest.raises(AssertionError, match="the default queue is not in this database; queues that are: orders"):
        schema(any_q.url, "finish")
    assert "orders (version 1)" in schema(any_q.url, "show")


def test_a_fresh_file_has_no_triggers(any_q: MixedQueue) -> None:
    """The plain transport speaks to servers only; the tables of a server have them from the beginning."""
    any_q.open()
    assert triggers(any_q) == (0 if any_q.engine == "embedded" else 9)
