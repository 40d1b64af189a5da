"""Of a lost reply it is told whether its request was applied."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.proxy import Exchange
from tests.soak.network import is_applied

ROW: dict[str, Any] = {"last_insert_id": 3, "rows_affected": 1}
REFUSED = {"error": "CHECK constraint failed: fence"}


@pytest.mark.parametrize(
    ("reply", "applied"),
    [
        ({"results": [ROW, {"types": {}, "rows": []}]}, True),
        ({"results": [REFUSED]}, False),
        ({"results": [ROW, REFUSED]}, False),
        ({"results": [], "error": "leader not found"}, False),
        ({"results": 17}, False),
        ([], False),
        ("no", False),
    ],
)
def test_a_refused_request_is_not_applied(reply: object, applied: bool) -> None:
    exchange = Exchange(1, "POST", "/db/execute", [], b"", delivered=True, status=200, reply=json.dumps(reply).encode())
    assert is_applied(exchange) is applied
    exchange.delivered = False
    assert not is_applied(exchange)


def test_a_reply_that_is_none_is_not_applied() -> None:
    assert not is_applied(Exchange(1, "POST", "/db/execute", [], b"", delivered=True, status=200, reply=b'{"res'))
    assert not is_applied(Exchange(1, "POST", "/db/execute", [], b"", delivered=True, status=503, reply=b"{}"))
