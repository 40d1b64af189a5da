"""Names of groups, workers and ids may be any text of 1 to 1,024 bytes, and never meet each other."""

import pytest

from rqfast import InvalidMessage
from tests.contract.views import Lease, Queue, View

NAMES: dict[str, str] = {
    "single quote": "o'clock",
    "double quote": 'say "a"',
    "backtick": "`a`",
    "brackets": "[a]",
    "injection": "'); DROP TABLE messages; --",
    "comment": "a -- b /* c */",
    "question mark": "?",
    "numbered": "?1",
    "named": ":a",
    "at": "@a",
    "dollar": "$a",
    "percent": "%s %d %",
    "underscore": "_",
    "star": "*",
    "backslash": "\\",
    "newline": "a\nb",
    "tab": "a\tb",
    "a blank": " ",
    "blank before": " a",
    "blank after": "a ",
    "plain": "a",
    "capital": "A",
    "blob literal": "X'6162'",
    "what it would be": "ab",
    "blob literal among blanks": " x'6162' ",
    "null": "null",
    "NULL": "NULL",
    "true": "true",
    "one": "1",
    "one point zero": "1.0",
    "zero one": "01",
    "exponent": "1e0",
    "JSON": '["a",1]',
    "JSON path": "$.a[0]",
    "parked": "__parked__",
    "tilde": "~w:1",
    "composed": "\u00e9",
    "decomposed": "e\u0301",
    "sharp s": "\u00df",
    "right to left": "\u202eabc",
    "byte order mark": "\ufeff",
    "emoji": "\U0001f600",
    "last code point": "\U0010ffff",
    "as long as may be": "x" * 1024,
    "as long as may be in bytes": "\u00e9" * 512,
    "as long but for its end": "x" * 1023 + "y",
}


def take(view: View, worker_id: str = "w") -> Lease:
    """Claim what must be there."""
    lease = view.claim(worker_id)
    assert lease is not None
    return lease


def test_a_group_of_any_name_is_worked(q: Queue) -> None:
    view = q.open()
    for name, group in NAMES.items():
        for n in range(5):
            view.publish(group, n, rank=0 if n < 3 else 1)
        first = take(view)
        assert (first.group_id, first.event) == (group, 0), name
        assert view.claim("w") is None, name
        view.nack(first)
        second = take(view)
        assert (second.event, second.attempts) == (0, 2), name
        view.extend(second, 60)
        view.ack(second)
        view.defer(take(view), 3600)
        view.dead_letter(take(view), "why")
        assert view.claim("w") is None, f"{name}: the deferred one is the head of its rank"


def test_names_that_look_alike_are_different_groups(q: Queue) -> None:
    view = q.open()
    for number, name in enumerate(NAMES.values()):
        view.publish(name, number)
    view.publish_many([(name, number + 1000) for number, name in enumerate(NAMES.values())])
    leases = view.claim_many("w", 30, 1000)
    assert {lease.group_id: lease.event for lease in leases} == {n: k for k, n in enumerate(NAMES.values())}
    assert len(leases) == len(NAMES)
    assert view.ack_many(leases) == []
    second = view.claim_many("w", 30, 1000)
    assert {lease.group_id: lease.event for lease in second} == {n: k + 1000 for k, n in enumerate(NAMES.values())}


def test_a_worker_of_any_name_holds_its_lease(q: Queue) -> None:
    view = q.open()
    for name, worker in NAMES.items():
        view.publish("g", 1)
        view.publish("g", 2)
        lease = take(view, worker)
        assert lease.worker_id == worker, name
        view.extend(lease, 60)
        view.ack(lease)
        leases = view.claim_many(worker, 30, 5)
        assert [lease.worker_id for lease in leases] == [worker], name
        assert view.ack_many(leases) == [], name


def test_dedup_ids_that_look_alike_are_different(q: Queue) -> None:
    view = q.open()
    seqs = [view.publish("g", name, dedup_id=name) for name in NAMES.values()]
    assert len(set(seqs)) == len(NAMES)
    assert [view.publish("g", name, dedup_id=name) for name in NAMES.values()] == seqs


def test_names_too_short_too_long_or_not_text(q: Queue) -> None:
    """NUL is refused too: some versions of SQLite end a text there, and two names would meet."""
    view = q.open()
    for name in ("", "x" * 1025, "\u00e9" * 513, "\ud800", "a\udc00", "\x00", "a\x00", "a\x00b"):
        with pytest.raises(InvalidMessage):
            view.publish(name, 1)
        with pytest.raises(InvalidMessage):
            view.claim(name)
        with pytest.raises(InvalidMessage):
            view.publish("g", 1, dedup_id=name)
    assert view.claim("w") is None
