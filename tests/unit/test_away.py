"""What a worker says while its database is away."""

from __future__ import annotations

import logging

import pytest

from rqfast import Unavailable
from rqfast.worker.away import OFTEN, Away


def test_it_says_how_long_now_and_then_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    now = 1000.0
    away = Away("crm", lambda: now)
    error = Unavailable("no leader", ())
    with caplog.at_level(logging.WARNING, "rqfast.worker"):
        away.tell_back()
        for second in range(int(2 * OFTEN) + 5):
            now = 1000.0 + second
            away.tell(error)
            assert away.is_away
        away.tell_back()
        away.tell_back()
        assert not away.is_away
        now += 1
        away.tell(error)
    told = [one.getMessage() for one in caplog.records]
    seconds = (0, OFTEN, 2 * OFTEN)
    lines = [f"crm: nothing could be claimed for {n:.0f} s, it is tried again: no leader" for n in seconds]
    assert told == [*lines, f"crm: claims go on after {2 * OFTEN + 4:.0f} s", lines[0]]
