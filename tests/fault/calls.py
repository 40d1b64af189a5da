"""The calls that fault tests make: how each is prepared, made, and what must be true of it afterwards."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import rqfast
from tests.contract.views import Lease, QueueUnderTest, View

GROUP = "g"
OWN = "own_fault"


@dataclass(frozen=True)
class Call:
    """One call, with the state that `prepare` gave it; `check` looks at its answer and at the database."""

    name: str
    prepare: Callable[[View], Any]
    make: Callable[[View, Any], Any]
    check: Callable[[QueueUnderTest, View, Any, Any], None]


def rows(q: QueueUnderTest, columns: str = "seq") -> list[tuple[Any, ...]]:
    """All messages of the queue, by seq."""
    return q.sql(f"SELECT {columns} FROM {q.table('messages')} ORDER BY seq")


def empty(q: QueueUnderTest) -> None:
    """Remove all messages and groups past the client's back, so that the next call starts anew."""
    for table in ("messages", "groups", "dead"):
        q.execute(f"DELETE FROM {q.table(table)}")


def take(view: View, visibility: float = 60) -> Lease:
    lease = view.claim("w", visibility)
    assert lease is not None
    return lease


def _nothing(view: View) -> None:
    return None


def _published(view: View) -> int:
    return view.publish(GROUP, "a")


def _published_with_id(view: View) -> tuple[int, str]:
    dedup_id = f"id {secrets.token_hex(8)}"
    return view.publish(GROUP, "first", dedup_id=dedup_id), dedup_id


def _of_two_priorities(view: View) -> list[int]:
    return [view.publish("low", 1), view.publish("high", 2, priority=2)]


def _leased(view: View) -> Lease:
    view.publish(GROUP, "a")
    return take(view)


def _leased_of_two(view: View) -> Lease:
    view.publish_many([(GROUP, "a"), (GROUP, "b")])
    return take(view)


def _stranger(view: View) -> Lease:
    lease = _leased(view)
    return rqfast.Lease(lease.seq, lease.group_id, lease.event, "~nobody:1")


def _check_publish(q: QueueUnderTest, view: View, state: None, seq: int) -> None:
    assert rows(q, "seq, group_id, event") == [(seq, GROUP, '"new"')]


def _check_again(q: QueueUnderTest, view: View, state: tuple[int, str], seq: int) -> None:
    assert seq == state[0]
    assert rows(q, "seq, event") == [(seq, '"first"')]


def _check_publish_many(q: QueueUnderTest, view: View, state: None, seqs: Any) -> None:
    assert rows(q, "seq, event") == [(seq, str(n)) for n, seq in enumerate(seqs)]
    assert len(seqs) == 5


def _check_claim(q: QueueUnderTest, view: View, seq: int, lease: Lease) -> None:
    assert (lease.seq, lease.event, lease.attempts) == (seq, "a", 1)
    assert rows(q, "seq, locked_by, attempts") == [(seq, lease.token, 1)]
    assert view.claim("w") is None
    view.ack(lease)


def _check_high_claim(q: QueueUnderTest, view: View, seqs: list[int], lease: Lease) -> None:
    assert (lease.seq, lease.event, lease.attempts) == (seqs[1], 2, 1)
    assert rows(q, "seq, locked_by") == [(seqs[0], None), (seqs[1], lease.token)]


def _prepare_three_groups(view: View) -> list[int]:
    return list(view.publish_many([(f"g{n}", n) for n in range(3)]))


def _check_claim_many(q: QueueUnderTest, view: View, seqs: list[int], leases: list[Lease]) -> None:
    assert {lease.seq: (lease.event, lease.attempts) for lease in leases} == {seq: (n, 1) for n, seq in enumerate(seqs)}
    owners = sorted((lease.seq, lease.token, 1) for lease in leases)
    assert rows(q, "seq, locked_by, attempts") == owners
    assert view.ack_many(leases) == []


def _check_ack(q: QueueUnderTest, view: View, lease: Lease, answer: None) -> None:
    assert rows(q) == []
    with pytest.raises(rqfast.LeaseLost):
        view.ack(lease)


def _check_ack_and_claim(q: QueueUnderTest, view: View, first: Lease, second: Lease) -> None:
    assert (second.event, second.attempts) == ("b", 1)
    assert rows(q, "seq, locked_by") == [(second.seq, second.token)]
    view.ack(second)


def _check_nack(q: QueueUnderTest, view: View, lease: Lease, answer: None) -> None:
    again = take(view)
    assert (again.seq, again.attempts) == (lease.seq, 2)
    assert rows(q, "seq, locked_by, attempts") == [(again.seq, again.token, 2)]


def _check_held_back(q: QueueUnderTest, view: View, lease: Lease, answer: None) -> None:
    assert rows(q, "seq, attempts") == [(lease.seq, 1)]
    assert view.claim("w") is None
    with pytest.raises(rqfast.LeaseLost):
        view.ack(lease)


def _check_extend(q: QueueUnderTest, view: View, lease: Lease, until: float) -> None:
    assert lease.expires_at == pytest.approx(until, abs=0.01)
    assert 100 < lease.remaining() <= 120.5
    assert rows(q, "seq, locked_by, attempts") == [(lease.seq, lease.token, 1)]
    assert rows(q, "lock_expiry")[0][0] == pytest.approx(until, abs=0.01)
    view.ack(lease)


def _check_refused(q: QueueUnderTest, view: View, stranger: Lease, answer: object) -> None:
    assert isinstance(answer, rqfast.LeaseLost)
    [(seq, owner, attempts)] = rows(q, "seq, locked_by, attempts")
    assert (seq, attempts) == (stranger.seq, 1)
    assert owner is not None


def _refused_ack(view: View, stranger: Lease) -> object:
    try:
        view.ack(stranger)
    except rqfast.LeaseLost as error:
        return error
    return None


def _waiting(view: View) -> list[int]:
    """Three messages, of which the first is in work."""
    seqs = list(view.publish_many((GROUP, n) for n in range(3)))
    take(view)
    return seqs


def _buried(view: View) -> list[int]:
    """Three dead letters, and a message that was published later."""
    seqs = list(view.publish_many((GROUP, n) for n in range(3)))
    for _ in seqs:
        view.dead_letter(take(view), "why")
    view.publish(GROUP, "later")
    return seqs


def _paused(view: View) -> int:
    seq = _published(view)
    view.pause(GROUP)
    return seq


def _queue_paused(view: View) -> int:
    seq = _published(view)
    view.pause()
    return seq


def _check_delete(q: QueueUnderTest, view: View, seqs: list[int], was_there: bool) -> None:
    assert was_there is True
    assert rows(q) == [(seqs[0],), (seqs[2],)]


def _check_release(q: QueueUnderTest, view: View, lease: Lease, was_held: bool) -> None:
    assert was_held is True
    _check_nack(q, view, lease, None)


def _check_paused(q: QueueUnderTest, view: View, seq: int, answer: None) -> None:
    assert view.claim("w") is None
    assert [group.state for group in view.groups()] == ["paused"]
    view.resume()


def _check_resumed(q: QueueUnderTest, view: View, seq: int, answer: None) -> None:
    assert take(view).seq == seq


def _check_purge(q: QueueUnderTest, view: View, seqs: list[int], count: int) -> None:
    assert count == 2
    assert rows(q) == [(seqs[0],)]


def _check_redrive(q: QueueUnderTest, view: View, seqs: list[int], count: int) -> None:
    assert count == 3
    assert [message.event for message in view.peek(GROUP)] == [0, 1, 2, "later"]
    assert rows(q)[:3] == [(seq,) for seq in seqs]
    assert view.dead_letters() == []


def _check_dropped(q: QueueUnderTest, view: View, seqs: list[int], count: int) -> None:
    assert count == 2
    assert [letter.seq for letter in view.dead_letters()] == seqs[:1]


def own_rows(mark: str) -> list[list[Any]]:
    return [[f'CREATE TABLE IF NOT EXISTS "{OWN}"(mark TEXT)'], [f'INSERT INTO "{OWN}" VALUES(?)', mark]]


def _marked(view: View) -> str:
    return secrets.token_hex(8)


def _leased_and_marked(view: View) -> tuple[Lease, str]:
    return _leased(view), _marked(view)


def check_once(q: QueueUnderTest, mark: str) -> None:
    assert q.sql(f'SELECT count(*) FROM "{OWN}" WHERE mark=?', mark) == [(1,)]


def _check_publish_with(q: QueueUnderTest, view: View, mark: str, seq: int) -> None:
    _check_publish(q, view, None, seq)
    check_once(q, mark)


def _published_with(view: View) -> tuple[int, str]:
    mark = secrets.token_hex(8)
    return view.publish(GROUP, "new", dedup_id=mark, with_statements=own_rows(mark)), mark


def _check_published_before(q: QueueUnderTest, view: View, state: tuple[int, str], seq: int) -> None:
    assert seq == state[0]
    _check_publish_with(q, view, state[1], seq)


def _check_handed_on(q: QueueUnderTest, view: View, lease: Lease, answer: None) -> None:
    assert rows(q, "group_id, event") == [(GROUP, '"next"'), ("h", '"far"')]
    with pytest.raises(rqfast.LeaseLost):
        view.ack(lease)


def _check_handed_on_with(q: QueueUnderTest, view: View, state: tuple[Lease, str], answer: None) -> None:
    assert rows(q, "group_id, event") == [(GROUP, '"next"')]
    check_once(q, state[1])


def _refused_hand_on(view: View, stranger: Lease) -> object:
    try:
        view.ack(stranger, publish=[(GROUP, "next"), ("h", "far")])
    except rqfast.LeaseLost as error:
        return error
    return None


def _refused_hand_on_with(view: View, stranger: Lease) -> object:
    try:
        view.ack(stranger, publish=[(GROUP, "next")], with_statements=own_rows("never"))
    except rqfast.LeaseLost as error:
        return error
    return None


def _four(view: View) -> list[int]:
    """Four messages of one group."""
    return list(view.publish_many((GROUP, n) for n in range(4)))


def _run(view: View) -> list[Lease]:
    """Four messages, of which three are in work as a run."""
    _four(view)
    return view.claim_run("w", 60, 3)


def _run_and_marked(view: View) -> tuple[list[Lease], str]:
    return _run(view), _marked(view)


def _check_run(q: QueueUnderTest, view: View, seqs: list[int], run: list[Lease]) -> None:
    assert [(lease.seq, lease.event, lease.attempts) for lease in run] == [
        (seq, n, 1) for n, seq in enumerate(seqs[:3])
    ]
    [token] = {lease.token for lease in run}
    assert rows(q, "seq, locked_by, attempts") == [*((seq, token, 1) for seq in seqs[:3]), (seqs[3], None, 0)]
    assert view.claim("w") is None
    assert view.ack_many(run) == []


def _check_run_acked(q: QueueUnderTest, view: View, run: list[Lease], lost: list[Lease]) -> None:
    assert lost == []
    assert rows(q, "event, locked_by") == [("3", None)]
    assert view.ack_many(run) == run


def _check_run_acked_with(q: QueueUnderTest, view: View, state: tuple[list[Lease], str], lost: list[Lease]) -> None:
    _check_run_acked(q, view, state[0], lost)
    check_once(q, state[1])


def _check_next_run(q: QueueUnderTest, view: View, run: list[Lease], then: list[Lease]) -> None:
    assert [(lease.event, lease.attempts) for lease in then] == [(3, 1)]
    assert rows(q, "seq, locked_by") == [(then[0].seq, then[0].token)]
    assert view.ack_many(then) == []


def _check_run_put_back(q: QueueUnderTest, view: View, run: list[Lease], answer: None) -> None:
    assert rows(q, "event, attempts, locked_by") == [
        ("0", 1, run[0].token),
        ("1", 1, None),
        ("2", 0, None),
        ("3", 0, None),
    ]
    assert view.ack_many(run) == run[1:]
    assert [(lease.event, lease.attempts) for lease in view.claim_run("w", 60, 3)] == [(1, 2), (2, 1), (3, 1)]


def _check_run_extended(q: QueueUnderTest, view: View, run: list[Lease], until: float) -> None:
    for lease in run:
        assert lease.expires_at == pytest.approx(until, abs=0.01)
        assert 100 < lease.remaining() <= 120.5
    assert len({ends for ends, token in rows(q, "lock_expiry, locked_by") if token is not None}) == 1
    assert view.ack_many(run) == []


def _check_out_of_order(q: QueueUnderTest, view: View, run: list[Lease], answer: object) -> None:
    assert isinstance(answer, rqfast.OutOfOrder)
    assert rows(q, "locked_by, attempts") == [(run[0].token, 1)] * 3 + [(None, 0)]
    assert view.ack_many(run) == []


def _out_of_order(view: View, run: list[Lease], **more: Any) -> object:
    try:
        view.ack(run[1], **more)
    except rqfast.OutOfOrder as error:
        return error
    return None


CALLS = [
    Call("publish", _nothing, lambda view, _: view.publish(GROUP, "new"), _check_publish),
    Call(
        "publish with a rank",
        _nothing,
        lambda view, _: view.publish(GROUP, "new", rank=1, headers={"h": "v"}),
        _check_publish,
    ),
    Call(
        "publish with a dedup id",
        _nothing,
        lambda view, _: view.publish(GROUP, "new", dedup_id=f"id {secrets.token_hex(8)}"),
        _check_publish,
    ),
    Call(
        "publish again",
        _published_with_id,
        lambda view, state: view.publish(GROUP, "again", dedup_id=state[1]),
        _check_again,
    ),
    Call(
        "publish_many",
        _nothing,
        lambda view, _: view.publish_many((GROUP, n) for n in range(5)),
        _check_publish_many,
    ),
    Call(
        "publish_many as one",
        _nothing,
        lambda view, _: view.publish_many(((GROUP, n) for n in range(5)), atomic=True),
        _check_publish_many,
    ),
    Call(
        "publish with statements",
        _marked,
        lambda view, mark: view.publish(GROUP, "new", with_statements=own_rows(mark)),
        _check_publish_with,
    ),
    Call(
        "publish with statements again",
        _published_with,
        lambda view, state: view.publish(GROUP, "new", dedup_id=state[1], with_statements=own_rows(state[1])),
        _check_published_before,
    ),
    Call(
        "ack that hands on",
        _leased,
        lambda view, lease: view.ack(lease, publish=[(GROUP, "next"), ("h", "far")]),
        _check_handed_on,
    ),
    Call(
        "ack with statements",
        _leased_and_marked,
        lambda view, state: view.ack(state[0], publish=[(GROUP, "next")], with_statements=own_rows(state[1])),
        _check_handed_on_with,
    ),
    Call("refused ack that hands on", _stranger, _refused_hand_on, _check_refused),
    Call("refused ack with statements", _stranger, _refused_hand_on_with, _check_refused),
    Call("claim", _published, lambda view, _: view.claim("w", 60), _check_claim),
    Call(
        "claim with min_priority",
        _of_two_priorities,
        lambda view, _: view.claim("w", 60, min_priority=2),
        _check_high_claim,
    ),
    Call(
        "claim_many",
        _prepare_three_groups,
        lambda view, _: view.claim_many("w", 60, limit=3),
        _check_claim_many,
    ),
    Call("ack", _leased, lambda view, lease: view.ack(lease), _check_ack),
    Call(
        "ack and claim",
        _leased_of_two,
        lambda view, lease: view.claim("w", 60, ack=lease),
        _check_ack_and_claim,
    ),
    Call("nack", _leased, lambda view, lease: view.nack(lease), _check_nack),
    Call("nack with delay", _leased, lambda view, lease: view.nack(lease, 60), _check_held_back),
    Call("defer", _leased, lambda view, lease: view.defer(lease, 60), _check_held_back),
    Call("extend", _leased, lambda view, lease: view.extend(lease, 120), _check_extend),
    Call("refused ack", _stranger, _refused_ack, _check_refused),
    Call("claim_run", _four, lambda view, _: view.claim_run("w", 60, 3), _check_run),
    Call("ack of a run", _run, lambda view, run: view.ack_many(run), _check_run_acked),
    Call(
        "ack of a run with statements",
        _run_and_marked,
        lambda view, state: view.ack_many(state[0], with_statements=own_rows(state[1])),
        _check_run_acked_with,
    ),
    Call("ack of a run and the next", _run, lambda view, run: view.claim_run("w", 60, 3, ack=run), _check_next_run),
    Call("nack in a run", _run, lambda view, run: view.nack(run[1]), _check_run_put_back),
    Call("extend in a run", _run, lambda view, run: view.extend(run[1], 120), _check_run_extended),
    Call("ack out of order", _run, _out_of_order, _check_out_of_order),
    Call(
        "ack out of order with statements",
        _run,
        lambda view, run: _out_of_order(view, run, with_statements=own_rows("never")),
        _check_out_of_order,
    ),
    Call("delete", _waiting, lambda view, seqs: view.delete(seqs[1]), _check_delete),
    Call("release", _leased, lambda view, _: view.release(GROUP), _check_release),
    Call("pause", _published, lambda view, _: view.pause(GROUP), _check_paused),
    Call("pause of the queue", _published, lambda view, _: view.pause(), _check_paused),
    Call("resume", _paused, lambda view, _: view.resume(GROUP), _check_resumed),
    Call("resume of the queue", _queue_paused, lambda view, _: view.resume(), _check_resumed),
    Call("purge", _waiting, lambda view, _: view.purge(GROUP), _check_purge),
    Call("purge of everything", _waiting, lambda view, _: view.purge(everything=True), _check_purge),
    Call("redrive", _buried, lambda view, _: view.redrive(), _check_redrive),
    Call("redrive of some", _buried, lambda view, seqs: view.redrive(seqs=seqs), _check_redrive),
    Call("drop_dead_letters", _buried, lambda view, seqs: view.drop_dead_letters(seqs[1:]), _check_dropped),
]
EACH = [pytest.param(call, id=call.name) for call in CALLS]
