"""The queue's time as a client counts it: forward only, by the monotonic clock, by no wall clock."""

import pytest

from rqfast.engine.time import QueueClock, Reading, anchored, must_jump


def test_never_lags_behind_what_the_database_said() -> None:
    clock = QueueClock()
    clock.saw(1000.0)
    assert clock.now() == pytest.approx(1000.0, abs=1.0)
    clock.saw(5000.0)
    assert clock.now() >= 5000.0
    clock.saw(10.0)
    assert clock.now() >= 5000.0


def test_a_wall_clock_that_steps_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = QueueClock()
    clock.saw(1000.0)
    monkeypatch.setattr("time.time", lambda: 9e9)
    assert clock.now() == pytest.approx(1000.0, abs=1.0)


def test_a_source_of_the_users_own_is_the_time_unless_the_database_is_ahead() -> None:
    clock = QueueClock(lambda: 50)
    assert clock.now() == 50.0
    clock.saw(70.0)
    assert clock.now() == 70.0


@pytest.mark.parametrize(
    ("t", "wall", "jumps"), [(0.0, 1e9, False), (1e9, 1e9 + 59, False), (1e9, 1e9 + 61, True), (1e9, 0.0, False)]
)
def test_only_a_large_step_of_a_used_queue_is_a_jump(t: float, wall: float, jumps: bool) -> None:
    assert must_jump(Reading(t, None, None, True), wall) is jumps


def test_processes_of_one_boot_count_from_one_anchor() -> None:
    reading = Reading(500.0, "this boot", 400.0, False)
    assert anchored(reading, ("this boot", 130.0)) == 530.0
    assert anchored(reading, ("this boot", 20.0)) == 500.0
    assert anchored(reading, ("another", 130.0)) is None
    assert anchored(reading, None) is None
