"""Statistics of a nearly empty queue, as a server's daily PRAGMA optimize leaves them, do not stay (protocol A6)."""

import pytest

from tests.contract.views import Queue


@pytest.mark.parametrize("rows", [1, 3, 50])
def test_opening_removes_what_was_noted_of_a_nearly_empty_queue(q: Queue, rows: int) -> None:
    view = q.open()
    for n in range(rows):
        view.publish(f"g{n}", n)
    view.claim_many("w", 600, rows)
    table = f"rqfast_{q.options['queue']}_messages"
    q.execute(f'ANALYZE "{table}"')
    assert q.sql("SELECT count(*) FROM sqlite_stat1 WHERE tbl=?", table)[0][0] > 0
    other = q.open()
    assert q.sql("SELECT count(*) FROM sqlite_stat1 WHERE tbl=?", table)[0][0] == 0
    other.publish("after", 1)
    lease = other.claim("w")
    assert lease is not None and lease.event == 1
