"""Many processes on one queue: one worker in a group, order kept, each message once; some are killed."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.processes import (
    HAS_FORK,
    SPAWN,
    Log,
    Remote,
    join_all,
    open_and_use,
    remotes,
    use_after_fork,
    work,
)
from tests.contract.views import Lease, Queue, View

# Messages, groups and processes of the large run, by engine.
LARGE = {
    "embedded": (10_000, 200, 8),
    "dev server": (10_000, 200, 8),
    "one node": (10_000, 200, 8),
    "three nodes": (10_000, 200, 8),
}
# The same for workers that take one message at a time.
SMALL = {
    "embedded": (1000, 40, 4),
    "dev server": (400, 40, 4),
    "one node": (1000, 40, 4),
    "three nodes": (400, 40, 4),
}
# Publishes of each of the eight threads.
ROUNDS = {"embedded": 500, "dev server": 250, "one node": 250, "three nodes": 250}
RUN_SECONDS = 100.0


def take(view: View, visibility: float = 600) -> Lease:
    """Claim what must be there."""
    lease = view.claim("w", visibility)
    assert lease is not None
    return lease


def run_workers(q: Queue, folder: Path, numbers: tuple[int, int, int], limit: int, many: bool) -> None:
    messages, groups, processes = numbers
    view = q.open()
    view.publish_many((f"g{n % groups}", n) for n in range(messages))
    args = (q.address, str(folder), limit, many)
    workers = [SPAWN.Process(target=work, args=args, daemon=True) for _ in range(processes)]
    for worker in workers:
        worker.start()
    join_all(workers, RUN_SECONDS)
    log = Log(folder)
    assert log.clashes() == []
    for group in range(groups):
        assert log.done(f"g{group}") == list(range(group, messages, groups))
    assert q.sql(f"SELECT count(*) FROM {q.table('messages')}") == [(0,)]


def test_many_processes_never_meet_in_a_group(q: Queue, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    run_workers(q, folder, LARGE[q.engine], limit=20, many=True)


def test_many_processes_that_take_one_message_at_a_time(q: Queue, tmp_path: Path) -> None:
    folder = tmp_path / "log"
    folder.mkdir()
    run_workers(q, folder, SMALL[q.engine], limit=1, many=False)


def test_a_killed_workers_group_goes_on_after_its_lease_and_not_before(q: Queue) -> None:
    view = q.open()
    view.publish("g", "a")
    view.publish("g", "b")
    with remotes(q.address, 0) as (worker,):
        held = worker.call("claim", "worker", 2)
        assert held.event == "a"
        worker.kill()
    lease = view.claim("w", 600, wait=30)
    assert lease is not None
    assert (lease.event, lease.attempts) == ("a", 2)
    # Both are instants of the queue's own clock: when the second lease began, the first had ended.
    assert lease.expires_at - 600 >= held.expires_at - 0.001
    view.ack(lease)
    assert take(view).event == "b"


def test_what_a_killed_worker_acknowledged_stays_so(q: Queue) -> None:
    view = q.open()
    view.publish_many([("g", n) for n in range(3)])
    with remotes(q.address, 0) as (worker,):
        worker.call("ack", worker.call("claim", "worker", 1))
        worker.kill()
    lease = take(view)
    assert (lease.event, lease.attempts) == (1, 1)


def test_what_a_killed_publisher_was_told_is_there(q: Queue) -> None:
    view = q.open()
    with remotes(q.address, 0) as (publisher,):
        seqs = [publisher.call("publish", "g", n) for n in range(20)]
        publisher.kill()
    assert [row[0] for row in q.sql(f"SELECT seq FROM {q.table('messages')} ORDER BY seq")] == seqs
    assert take(view).event == 0


def test_a_lease_is_settled_in_another_process(q: Queue) -> None:
    view = q.open()
    view.publish_many([("g", {"n": n}) for n in range(4)])
    with remotes(q.address, 0) as (other,):
        other.call("ack", take(view))
        other.call("nack", take(view))
        lease = take(view)
        assert (lease.event, lease.attempts) == ({"n": 1}, 2)
        end = other.call("extend", lease, 5000)
        assert end > lease.expires_at
        other.call("dead_letter", lease, "why")
        theirs = other.call("claim", "other", 600)
        assert theirs.event == {"n": 2}
        view.ack(theirs)
    assert take(view).event == {"n": 3}


def test_an_error_is_the_same_in_another_process(q: Queue) -> None:
    from rqfast import InvalidMessage, LeaseLost

    view = q.open()
    view.publish("g", 1)
    lease = take(view)
    view.ack(lease)
    with remotes(q.address, 0) as (other,):
        with pytest.raises(LeaseLost, match=str(lease.seq)):
            other.call("ack", lease)
        with pytest.raises(InvalidMessage):
            other.call("publish", "", 1)


def in_background(calls: list[Callable[[], Any]]) -> tuple[list[threading.Thread], list[BaseException]]:
    errors: list[BaseException] = []

    def guard(call: Callable[[], Any]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guard, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    return threads, errors


@pytest.mark.parametrize("apart", [False, True], ids=["one transport", "two transports"])
def test_acks_of_the_last_message_against_publishes(q: Queue, apart: bool) -> None:
    """Eight threads publish into groups that drain all the time: each confirmed publish is delivered."""
    view = q.open()
    consumer = q.open() if apart else view
    rounds = ROUNDS[q.engine]
    published: list[list[int]] = [[] for _ in range(8)]
    delivered: list[int] = []
    finished = threading.Event()

    def publish(number: int) -> None:
        for n in range(rounds):
            published[number].append(view.publish(f"g{n % 3}", [number, n]))

    def consume() -> None:
        while True:
            over = finished.is_set()
            lease = consumer.claim("w", 600, wait=0.2)
            if lease is not None:
                delivered.append(lease.seq)
                consumer.ack(lease)
            elif over:
                return

    publishers, errors = in_background([lambda n=n: publish(n) for n in range(8)])
    consumers, more = in_background([consume] * 4)
    for thread in publishers:
        thread.join(RUN_SECONDS)
    finished.set()
    for thread in consumers:
        thread.join(RUN_SECONDS)
    assert errors + more == []
    assert not any(thread.is_alive() for thread in publishers + consumers)
    assert sorted(delivered) == sorted(seq for one in published for seq in one)
    assert len(set(delivered)) == 8 * rounds
    assert q.sql(f"SELECT count(*) FROM {q.table('messages')}") == [(0,)]


def test_ten_processes_open_a_queue_that_is_not_there_yet(q: Queue) -> None:
    processes = [SPAWN.Process(target=open_and_use, args=(q.address, n), daemon=True) for n in range(10)]
    for process in processes:
        process.start()
    join_all(processes, RUN_SECONDS)
    view = q.open()
    left = view.claim_many("w", 600, 100)
    assert q.sql(f"SELECT count(*) FROM {q.table('messages')}") == [(40,)]
    assert len(left) == len({lease.group_id for lease in left}) == 10


def test_both_sides_of_a_fork_go_on(q: Queue) -> None:
    if q.engine != "embedded" or q.colour != "sync" or not HAS_FORK:
        pytest.skip("only the embedded engine's own colour goes on after a fork")
    process = SPAWN.Process(target=use_after_fork, args=(q.address,), daemon=True)
    process.start()
    join_all([process], 60)
    view = q.open()
    events: dict[str, list[int]] = {}
    while (lease := view.claim("w")) is not None:
        events.setdefault(lease.group_id, []).append(lease.event)
        view.ack(lease)
    lost = {"child": 50, "parent": 50}
    assert events.pop("after") == [0]
    assert {name: len(seen) for name, seen in events.items()} in (lost | {"child": 49}, lost | {"parent": 49})
    assert all(seen == sorted(seen) for seen in events.values())


def test_a_remote_that_was_killed_is_gone(q: Queue) -> None:
    """Of the tools here: a killed process answers no more, so the tests above killed what they meant to."""
    worker = Remote(q.address).ready()
    worker.kill()
    assert worker.process.exitcode not in (None, 0)
