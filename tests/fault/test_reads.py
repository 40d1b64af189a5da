"""Reads that meet a server which has gone quiet: none waits for ever, and none says what is not so."""

from __future__ import annotations

import threading
import time

import pytest

import rqfast
from tests.fault.calls import GROUP, own_rows, rows
from tests.fault.conftest import FaultyQueue
from tests.proxy import Exchange

pytestmark = pytest.mark.cluster


def is_read(exchange: Exchange) -> bool:
    return exchange.path.startswith("/db/query")


def test_closing_ends_the_reads_of_other_threads(q: FaultyQueue) -> None:
    view = q.open(timeout=20)
    view.publish(GROUP, 1)
    q.proxied.down()
    told: list[BaseException] = []

    def ask() -> None:
        try:
            view.stats()
        except rqfast.RqfastError as error:
            told.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    time.sleep(0.5)
    view.close()
    asking.join(15)
    assert not asking.is_alive(), "stats() waits for ever"
    assert [type(error) for error in told] == [rqfast.Closed]


def test_what_was_applied_is_never_said_not_to_be(q: FaultyQueue) -> None:
    view = q.open(timeout=2)
    view.publish("other", 1)
    rule = q.proxy.delay(match=is_read, count=None)
    # Its reply tells nothing, so that what became of it is to be read.
    q.proxy.answer(200, b"garbage", delivered=True)
    with pytest.raises(rqfast.OutcomeUnknown):
        view.publish(GROUP, "new", with_statements=own_rows("quiet"))
    rule.release()
    q.proxied.clear()
    assert [event for group, event in rows(q, "group_id, event") if group == GROUP] == ['"new"']


def test_what_comes_with_the_reply_needs_no_read(q: FaultyQueue) -> None:
    view = q.open(timeout=2)
    rule = q.proxy.delay(match=is_read, count=None)
    view.publish(GROUP, "new", with_statements=own_rows("at once"))
    rule.release()
    q.proxied.clear()
    assert rows(q, "event") == [('"new"',)]


def test_a_leader_that_has_not_applied_its_log_yet_is_asked_again(q: FaultyQueue) -> None:
    """What one sees that answers by what it has so far, right after it was started or elected."""
    view = q.open(timeout=20)
    assert view.claim("w", 60) is None
    rule = q.proxy.answer(200, b'{"results":[{"error":"no such table: x"}]}', lambda sent: "level=weak" in sent.path)
    told: list[object] = []

    def wait_for_work() -> None:
        try:
            told.append(view.claim("w", 60, wait=10))
        except rqfast.RqfastError as error:
            told.append(error)

    waiting = threading.Thread(target=wait_for_work, daemon=True)
    waiting.start()
    rule.wait()
    q.open(timeout=20).publish(GROUP, 1)
    waiting.join(30)
    assert [type(one) for one in told] == [rqfast.Lease], told
