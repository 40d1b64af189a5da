"""What decides whether a claim looks before it writes, and how long a waiting claim rests."""

import pytest

from rqfast.pipeline.watch import FIRST_PAUSE, Watch


def test_looks_first_until_a_reply_left_work() -> None:
    watch = Watch(0.5)
    assert not watch.claims_at_once(0)
    watch.replied(0, [])
    assert watch.claims_at_once(0)
    assert not watch.claims_at_once(1)
    watch.replied(3, [])
    assert watch.claims_at_once(3)
    watch.replied(-1, [])
    assert not watch.claims_at_once(0)


def test_a_claim_that_found_nothing_makes_the_next_one_look() -> None:
    watch = Watch(0.5)
    watch.replied(4, [2])
    assert not watch.claims_at_once(2)
    assert watch.claims_at_once(1)


def test_a_publish_alone_says_nothing_of_work() -> None:
    watch = Watch(0.5)
    watch.replied(2, [])
    watch.replied(None, [])
    assert watch.claims_at_once(2)


def test_rests_grow_to_max_poll_and_begin_anew_after_activity() -> None:
    watch = Watch(0.1)
    rests = [watch.rest(0.0) for _ in range(8)]
    assert rests[0] == FIRST_PAUSE
    assert rests[-1] == 0.1
    watch.stirred()
    assert watch.rest(0.0) == FIRST_PAUSE


def test_never_rests_past_the_moment_when_a_group_is_ready() -> None:
    watch = Watch(10.0)
    watch.looked(False, 100.0)
    for _ in range(12):
        watch.rest(0.0)
    assert watch.rest(98.0) == pytest.approx(2.0, abs=0.01)
    assert watch.rest(200.0) < 0.01


def test_tidies_once_a_second_at_most() -> None:
    watch = Watch(0.5)
    assert watch.tidies([], 10.0) is None
    assert watch.tidies([2, 1], 10.0) == 1
    assert watch.tidies([0], 10.5) is None
    assert watch.tidies([0], 11.1) == 0
