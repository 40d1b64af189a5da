"""The tables: made once, made from those of the plain transport, and refused when they are not whole."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rqfast import SchemaError
from tests.contract.views import Clock, Queue, View, open_address

# As the plain transport makes them.
OLD_TABLES = [
    "CREATE TABLE IF NOT EXISTS messages (seq INTEGER PRIMARY KEY AUTOINCREMENT, group_id TEXT NOT NULL, "
    "event TEXT NOT NULL, locked_by TEXT, lock_expiry REAL)",
    'CREATE TABLE IF NOT EXISTS "groups" (group_id TEXT PRIMARY KEY, '
    "last_claimed_at REAL NOT NULL DEFAULT 0.0, priority INT NOT NULL DEFAULT 0)",
]
OLD_PUBLISH = "INSERT INTO messages(group_id,event) VALUES(?,?)"
OLD_GROUP = 'INSERT OR IGNORE INTO "groups"(group_id,priority) VALUES(?,?)'


def old_publish(q: Queue, group: str, event: str, priority: int = 0) -> None:
    """As the plain transport publishes."""
    q.execute(OLD_PUBLISH, group, event)
    q.execute(OLD_GROUP, group, priority)


def make_old(q: Queue) -> None:
    for statement in OLD_TABLES:
        q.execute(statement)


def order(view: View) -> list[tuple[str, Any]]:
    """Group and event of all that can be worked, in the order in which it comes."""
    seen = []
    while (lease := view.claim("w")) is not None:
        seen.append((lease.group_id, lease.event))
        view.ack(lease)
    return seen


def test_a_database_of_the_plain_transport_is_upgraded_in_place(default_q: Queue, clock: Clock) -> None:
    make_old(default_q)
    for n in range(3):
        old_publish(default_q, "a", f'{{"n": {n}}}')
        old_publish(default_q, "b", f"{n}.00", 3)
    view = default_q.open(clock=clock)
    first = view.claim("w", 60, 1)
    assert first is not None
    assert (first.group_id, first.raw, first.priority, first.attempts) == ("b", "0.00", 3, 1)
    view.nack(first)
    seq = view.publish("a", "new")
    assert seq == 7, "the seqs go on"
    seen = order(view)
    assert [event for group, event in seen if group == "a"] == [{"n": 0}, {"n": 1}, {"n": 2}, "new"]
    assert [event for group, event in seen if group == "b"] == [0, 1, 2]


def test_what_old_workers_hold_stays_held(default_q: Queue, clock: Clock) -> None:
    make_old(default_q)
    for group in ("held", "parked", "lapsed", "free"):
        for n in range(2):
            old_publish(default_q, group, str(n))
    lock = "UPDATE messages SET locked_by=?, lock_expiry=? WHERE group_id=? AND event='0'"
    default_q.execute(lock, "old:0123", clock() + 100, "held")
    default_q.execute(lock, "__parked__", clock() + 200, "parked")
    default_q.execute(lock, "old:4567", clock() - 100, "lapsed")
    view = default_q.open(clock=clock)
    leases = view.claim_many("w", 1000, 10)
    assert sorted((lease.group_id, lease.event) for lease in leases) == [("free", 0), ("lapsed", 0)]
    clock.advance(101)
    leases = view.claim_many("w", 1000, 10)
    assert [(lease.group_id, lease.event) for lease in leases] == [("held", 0)]
    clock.advance(100)
    leases = view.claim_many("w", 1000, 10)
    assert [(lease.group_id, lease.event) for lease in leases] == [("parked", 0)]


def test_old_groups_keep_their_turns(default_q: Queue, clock: Clock) -> None:
    make_old(default_q)
    served = {"a": 30.0, "b": 10.0, "c": 20.0}
    for group, at in served.items():
        old_publish(default_q, group, "1")
        default_q.execute('UPDATE "groups" SET last_claimed_at=? WHERE group_id=?', at, group)
    view = default_q.open(clock=clock)
    assert [group for group, _ in order(view)] == ["b", "c", "a"]


def test_messages_of_groups_without_a_row_are_found(default_q: Queue) -> None:
    make_old(default_q)
    default_q.execute(OLD_PUBLISH, "orphan", "1")
    default_q.execute(OLD_GROUP, "empty", 0)
    view = default_q.open()
    assert order(view) == [("orphan", 1)]


def test_an_old_database_is_upgraded_once(default_q: Queue) -> None:
    """Eight at once, then one more: nothing is lost, nothing done twice."""
    make_old(default_q)
    for n in range(20):
        old_publish(default_q, f"g{n % 4}", str(n))

    def open_one(_: int) -> View:
        return open_address(default_q.address)

    with ThreadPoolExecutor(8) as pool:
        views = list(pool.map(open_one, range(8)))
    try:
        views.append(open_one(8))
        seen: dict[str, list[int]] = {}
        for n in range(20):
            lease = views[n % 9].claim("w", 600)
            assert lease is not None
            seen.setdefault(lease.group_id, []).append(lease.event)
            views[n % 9].ack(lease)
        assert seen == {f"g{k}": list(range(k, 20, 4)) for k in range(4)}
    finally:
        for view in views:
            view.close()


def test_a_queue_that_is_not_there_is_made_once(q: Queue) -> None:
    def open_one(_: int) -> View:
        return open_address(q.address)

    with ThreadPoolExecutor(8) as pool:
        views = list(pool.map(open_one, range(8)))
    try:
        for n, view in enumerate(views):
            view.publish("g", n)
        assert [event for _, event in order(views[0])] == list(range(8))
    finally:
        for view in views:
            view.close()


@pytest.mark.parametrize("table", ["messages", "groups", "state", "lane"])
def test_a_table_that_is_missing_is_a_schema_error(q: Queue, table: str) -> None:
    q.open().close()
    q.execute(f"DROP TABLE {q.table(table)}")
    with pytest.raises(SchemaError) as caught:
        q.open()
    assert q.table(table).strip('"') in str(caught.value)
    assert "backup" in str(caught.value)


@pytest.mark.parametrize("index", ["m_head", "m_lock", "g_ready", "g_due"])
def test_an_index_that_is_missing_is_a_schema_error(q: Queue, index: str) -> None:
    q.open().close()
    q.execute(f"DROP INDEX {q.table(index)}")
    option = "" if q.queue is None else f" --queue {q.queue}"
    with pytest.raises(SchemaError, match=f"rqfast verify --repair{option}`"):
        q.open()


@pytest.mark.parametrize("view", ["any", "high", "served", "stamped"])
def test_a_view_that_is_missing_is_a_schema_error(q: Queue, view: str) -> None:
    q.open().close()
    q.execute(f"DROP VIEW {q.table(view)}")
    with pytest.raises(SchemaError, match=q.table(view).strip('"')):
        q.open()


@pytest.mark.parametrize("table", ["messages", "groups", "state", "lane"])
def test_a_table_that_goes_while_the_queue_is_open_never_passes_for_success(q: Queue, table: str) -> None:
    view = q.open()
    view.publish("g", 1)
    lease = view.claim("w", 600)
    assert lease is not None
    q.execute(f"DROP TABLE {q.table(table)}")
    with pytest.raises(SchemaError):
        view.publish("g", 2)
    with pytest.raises(SchemaError):
        view.ack(lease)


def test_a_version_that_is_not_known_is_a_schema_error(q: Queue) -> None:
    q.open().close()
    q.execute("UPDATE rqfast_schema SET version=version+1000 WHERE queue=?", q.queue)
    with pytest.raises(SchemaError, match="version"):
        q.open()
