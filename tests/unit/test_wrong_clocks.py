"""Wall clocks of the processes of a soak that are wrong."""

from __future__ import annotations

import time

from rqfast.soak.wall import OFFSETS, STEP_SECONDS, WrongClock, step_at, steps_between


def test_it_is_off_by_one_of_the_offsets_until_the_next_step() -> None:
    clock = WrongClock(7, "w1-1", lambda: 1000.0)
    before = step_at(time.monotonic())
    told = {clock.time() - 1000.0 for _ in range(3)}
    told.add(clock.time_ns() / 1e9 - 1000.0)
    assert told <= set(OFFSETS)
    assert len(told) == 1 or step_at(time.monotonic()) > before


def test_processes_have_different_ones() -> None:
    told = {WrongClock(7, f"w{number}-1", lambda: 0.0).time() for number in range(50)}
    assert len(told) > 3


def test_the_steps_between_two_times() -> None:
    assert steps_between(STEP_SECONDS * 2 + 1, STEP_SECONDS * 4 + 1) == [STEP_SECONDS * 3, STEP_SECONDS * 4]
    assert steps_between(STEP_SECONDS, STEP_SECONDS + 1) == []
