"""`rqfast verify`: each kind of damage is found and named, what is derived is mended, and nothing is found where
nothing is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from rqfast.connect import locate
from rqfast.sql.names import INDEXES, TRIGGERS, VIEWS
from rqfast.verify.found import AGREE, DISAGREE, Report
from rqfast.verify.run import verify
from tests.contract.conftest import BOTH, queue_of
from tests.contract.views import Clock, Queue, View, queue_name
from tests.fault.load import Load

# The colour of the transport has no part in it.
ONCE = [param for param in BOTH if param.values[0][1] == "sync"]


@pytest.fixture(params=ONCE)
def q(request: pytest.FixtureRequest) -> Iterator[Queue]:
    """A queue that no other test uses, under a name of its own."""
    yield from queue_of(request, *request.param, queue_name())


@pytest.fixture(params=ONCE)
def default_q(request: pytest.FixtureRequest) -> Iterator[Queue]:
    """The default queue in a database that has no other."""
    yield from queue_of(request, *request.param, None)


def look(q: Queue, *, repair: bool = False, wait: float = 20) -> Report:
    url, is_rqlite = locate(q.url)
    return asyncio.run(verify(url, is_rqlite, queue=q.queue or "", repair=repair, wait=wait))


def sound(report: Report) -> None:
    assert (report.findings, report.untold) == ([], [])
    assert [table for table in report.tables if table.difference or table.unread] == []
    assert report.status == AGREE


def fill(q: Queue, clock: Clock) -> View:
    """A queue with something in every table: 20 groups and some that are in work, parked, delayed, paused, dead."""
    view = q.open(clock=clock)
    for n in range(40):
        view.publish(f"g{n % 20:02}", n, n % 5, dedup_id=f"d{n}")
    view.publish("later", 1, delay=100)
    view.pause("paused")
    view.pause("g00")
    for lease in view.claim_many("w", 60, 3):
        view.dead_letter(lease, "broken")
    for lease in view.claim_many("w", 60, 2):
        view.nack(lease, 50)
    assert len(view.claim_many("w", 60, 4)) == 4
    assert len(view.claim_run("w", 60, 5)) == 2
    return view


def drain(view: View, clock: Clock) -> None:
    """All that is in it can be worked."""
    clock.advance(1000)
    for group in ("paused", "g00"):
        view.resume(group)
    left = view.stats().messages
    assert left > 30
    for _ in range(left):
        lease = view.claim("w", 600)
        assert lease is not None
        view.ack(lease)
    assert view.claim("w", 600) is None
    assert view.stats().messages == view.stats().groups == 0


def test_a_sound_queue_is_sound(q: Queue, clock: Clock) -> None:
    view = fill(q, clock)
    sound(look(q))
    sound(look(q, repair=True))
    drain(view, clock)
    report = look(q)
    sound(report)
    assert report.mended == [] and report.queues == [q.queue]
    if q.engine != "embedded":
        assert len(report.nodes) == (3 if q.engine == "three nodes" else 1)
        assert {len(table.rows) for table in report.tables} == {len(report.nodes)}
        assert report.index is not None


def test_the_default_queue_is_sound(default_q: Queue, clock: Clock) -> None:
    view = fill(default_q, clock)
    sound(look(default_q))
    drain(view, clock)
    sound(look(default_q, repair=True))


DERIVED = {
    "group_missing": ("DELETE FROM {groups} WHERE group_id IN ('g05','g07')", "g05"),
    "group_empty": ("INSERT INTO {groups}(group_id,turn) VALUES('nothing',1)", "nothing"),
    "group_late": ("UPDATE {groups} SET ready_at=5e14 WHERE group_id='g09'", "g09"),
    "group_late for good": ("UPDATE {groups} SET ready_at=9e15 WHERE paused=0", "g01"),
    "group_priority": ("UPDATE {groups} SET priority=-1 WHERE group_id='g04'", "g04"),
    "group_turn": ("UPDATE {groups} SET turn=5000 WHERE group_id='g03'", "g03"),
    "state_busy": ("UPDATE {state} SET busy=1", "state"),
    "sequence": ("UPDATE sqlite_sequence SET seq=7 WHERE name={messages!r}", "sqlite_sequence"),
    "sequence gone": ("DELETE FROM sqlite_sequence WHERE name={messages!r}", "sqlite_sequence"),
}


def real(q: Queue, text: str) -> str:
    """The statement with the real names of its tables: {groups} quoted, {messages!r} as a text."""
    names = {name: q.table(name) for name in ("groups", "messages", "state", "lane", "dead", "dedup")}
    return text.replace("{messages!r}", "'" + names["messages"].strip('"') + "'").format(**names)


@pytest.mark.parametrize("damage", DERIVED)
def test_what_is_derived_is_mended(q: Queue, clock: Clock, damage: str) -> None:
    view = fill(q, clock)
    before = q.sql(f"SELECT * FROM {q.table('messages')} ORDER BY seq")
    statement, subject = DERIVED[damage]
    q.execute(real(q, statement))
    report = look(q)
    assert report.status == DISAGREE
    [found] = report.findings
    assert (found.check, found.subject, found.mendable) == (damage.split()[0], subject, True)
    assert found.queue == q.queue and (subject in found.text or found.check in ("state_busy", "sequence"))
    mended = look(q, repair=True)
    sound(mended)
    assert len(mended.mended) == 1
    again = look(q, repair=True)
    sound(again)
    assert again.mended == []
    assert q.sql(f"SELECT * FROM {q.table('messages')} ORDER BY seq") == before, "messages are not touched"
    assert view.publish("g10", "new", dedup_id="new") == 42
    drain(view, clock)
    sound(look(q))


def test_many_groups_are_mended(q: Queue, clock: Clock) -> None:
    view = q.open(clock=clock)
    view.publish_many((f"g{n}", n) for n in range(12_000))
    q.execute(real(q, "DELETE FROM {groups} WHERE rowid>1"))
    report = look(q)
    assert report.findings[0].count == 11_999 and "11,999" in report.findings[0].text
    assert look(q, repair=True).mended == [f"queue {q.queue}: 11,999 groups have a row again"]
    sound(look(q))
    assert view.stats().claimable == 12_000
    seen = {lease.seq for lease in view.claim_many("w", 60, 500)}
    assert seen == set(range(1, 501)), "they come back in the order of their messages"


OTHER = {
    "state_row": ["DELETE FROM {state}"],
    "state_value": ["UPDATE {state} SET turn='many'"],
    "group_priority": ["UPDATE {groups} SET priority=7 WHERE group_id='g04'"],
    "group_leases": [
        "UPDATE {messages} SET locked_by='~a:1',lock_expiry=4e9 WHERE seq=13",
        "UPDATE {messages} SET locked_by='~b:1',lock_expiry=4e9 WHERE seq=33",
    ],
    "group_leases under one token": ["UPDATE {messages} SET locked_by='~a:1',lock_expiry=4e9 WHERE group_id='g12'"],
    "message_lock": ["UPDATE {messages} SET locked_by='~a:1' WHERE seq=14"],
    "message_value": ["UPDATE {messages} SET attempts=-1 WHERE seq=15"],
    "dead_again": [
        "INSERT INTO {messages}(seq,group_id,event,due) SELECT seq,group_id,event,due FROM {dead} ORDER BY seq LIMIT 1"
    ],
    "dead_priority": ["UPDATE {dead} SET priority=9 WHERE seq=(SELECT min(seq) FROM {dead})"],
    "lane_number": ["INSERT INTO {lane}(lane,n,at) VALUES('x',-1,0)"],
    "dedup_seq": ["UPDATE {dedup} SET seq=3 WHERE id='d9'"],
}


@pytest.mark.parametrize("damage", OTHER)
def test_what_is_not_derived_is_named(q: Queue, clock: Clock, damage: str) -> None:
    fill(q, clock)
    for statement in OTHER[damage]:
        q.execute(real(q, statement))
    for repair in (False, True):
        report = look(q, repair=repair)
        assert report.status == DISAGREE
        names = {found.check for found in report.findings if not found.mendable}
        assert names == {damage.split()[0]}
        assert not any("~a" in found.text for found in report.findings), "tokens are not told"


@pytest.mark.parametrize("name", [*INDEXES, *VIEWS])
def test_an_index_or_view_that_is_missing_is_made_anew(q: Queue, clock: Clock, name: str) -> None:
    view = fill(q, clock)
    q.execute(f"DROP {'INDEX' if name in INDEXES else 'VIEW'} {q.table(name)}")
    q.execute(real(q, "DELETE FROM {groups} WHERE group_id='g05'"))
    report = look(q)
    assert report.status == DISAGREE
    assert (report.findings[0].check, report.findings[0].subject) == ("objects", q.table(name).strip('"'))
    if name in ("m_head", "m_lock"):
        assert any(q.table(name).strip('"') in untold for untold in report.untold)
    sound(look(q, repair=True))
    drain(view, clock)
    sound(look(q))


def test_an_index_that_is_another_is_made_anew(q: Queue, clock: Clock) -> None:
    view = fill(q, clock)
    q.execute(f"DROP INDEX {q.table('m_head')}")
    q.execute(real(q, "CREATE INDEX " + q.table("m_head") + " ON {messages}(group_id,due,rank)"))
    [found] = look(q).findings
    assert found.text.endswith("was changed")
    sound(look(q, repair=True))
    drain(view, clock)


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_triggers_stand_all_or_none(default_q: Queue, clock: Clock, trigger: str) -> None:
    q = default_q
    view = fill(q, clock)
    there = "SELECT count(*) FROM sqlite_master WHERE type='trigger'"
    if q.sql(there) == [(0,)]:
        assert q.engine == "embedded", "a fresh file has no old workers"
        return
    q.execute(f"DROP TRIGGER {q.table(trigger)}")
    [found] = look(q).findings
    assert found.subject == q.table(trigger).strip('"') and found.text.startswith("trigger ")
    sound(look(q, repair=True))
    assert q.sql(there) == [(len(TRIGGERS),)]
    for name in TRIGGERS:
        q.execute(f"DROP TRIGGER {q.table(name)}")
    sound(look(q, repair=True))
    assert q.sql(there) == [(0,)], "`rqfast schema finish` was run"
    drain(view, clock)


@pytest.mark.parametrize("table", ["messages", "groups", "state", "lane", "dedup", "dead"])
def test_a_table_that_is_missing_is_named(q: Queue, clock: Clock, table: str) -> None:
    fill(q, clock)
    q.execute(f"DROP TABLE {q.table(table)}")
    for repair in (False, True):
        report = look(q, repair=repair)
        assert report.status == DISAGREE
        assert q.table(table).strip('"') in [found.subject for found in report.findings if found.check == "tables"]


def test_a_column_that_is_missing_is_named(q: Queue, clock: Clock) -> None:
    fill(q, clock)
    q.execute(real(q, "ALTER TABLE {messages} DROP COLUMN headers"))
    report = look(q)
    assert [(found.check, found.subject) for found in report.findings] == [("tables", "headers")]


def test_nothing_is_found_while_it_is_used(q: Queue) -> None:
    """Under load the bookkeeping is sound at every look; whether nodes agree may have to wait."""
    load = Load(publishers=2, workers=4, count=150)
    q.open().close()
    load.start(q.open)
    looks = 0
    while len(load.acked) < load.total and not load.errors and looks < 50:
        report = look(q, repair=True, wait=0.2)
        assert report.findings == [] and report.mended == []
        assert not any(table.difference for table in report.tables)
        assert all("busy" in untold for untold in report.untold)
        looks += 1
    load.finish()
    sound(look(q))
    assert looks > 0
