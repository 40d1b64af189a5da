"""Each operating call against a group in every state (see operating.py)."""

from __future__ import annotations

import pytest

from rqfast import Stats
from tests.contract.operating import GROUP, STATES, State, settles, take
from tests.contract.views import Clock, Queue

each_state = pytest.mark.parametrize("state", [pytest.param(state, id=name) for name, state in STATES.items()])


@each_state
def test_stats(q: Queue, clock: Clock, state: State) -> None:
    view = q.open(clock=clock)
    state.prepare(view, clock)
    shown, is_paused = state.shown, state.shown == "paused"
    assert view.stats() == Stats(
        messages=state.messages,
        claimable=int(shown == "claimable"),
        in_work=int(state.holds),
        parked=int(shown == "parked"),
        delayed=int(shown == "delayed"),
        paused=int(is_paused),
        dead=len(view.dead_letters()),
        groups=int(shown is not None),
        oldest_claimable_age=None if shown != "claimable" else 61.0 if state is STATES["lapsed"] else 0.0,
        oldest_in_work_age=0.0 if state.holds else None,
    )


@each_state
def test_groups(q: Queue, clock: Clock, state: State) -> None:
    view = q.open(clock=clock)
    lease = state.prepare(view, clock)
    groups = view.groups()
    assert [group.group_id for group in groups] == [GROUP] * (state.shown is not None)
    for group in groups:
        assert (group.state, group.depth) == (state.shown, state.messages)
        assert (group.worker_id is not None) == state.holds
        assert (group.head_seq is not None) == (state.messages > 0)
        assert group.head_attempts == int(lease is not None)
        ends = state.holds or state.shown in ("parked", "delayed")
        assert group.until == (pytest.approx(clock.now + 60, abs=1e-3) if ends else None)
        assert view.groups(state=state.shown) == groups
    for other in {"claimable", "in_work", "parked", "delayed", "paused"} - {state.shown}:
        assert view.groups(state=other) == []


@each_state
def test_peek(q: Queue, clock: Clock, state: State) -> None:
    view = q.open(clock=clock)
    state.prepare(view, clock)
    before = view.groups()
    assert [message.event for message in view.peek(GROUP)] == ["a"] * state.messages
    assert view.groups() == before


@each_state
def test_delete(q: Queue, clock: Clock, state: State) -> None:
    view = q.open(clock=clock)
    lease = state.prepare(view, clock)
    seq = next((message.seq for message in view.peek(GROUP)), 1)
    goes = bool(state.messages) and not state.holds
    assert view.delete(seq) is goes
    assert view.delete(seq) is False
    assert view.stats().messages == state.messages - goes
    assert [group.group_id for group in view.groups()] == [GROUP] * (state.shown == "paused" or state.holds)
    if lease is not None:
        assert settles(view, lease) == state.holds


@each_state
def test_release(q: Queue, clock: Clock, state: State) -> None:
    view = q.open(clock=clock)
    lease = state.prepare(view, clock)
    assert view.release(GROUP) is state.released
    assert view.release(GROUP) is False
    if lease is not None:
        assert not settles(view, lease)
    again = view.claim("other")
    if state.shown in ("claimable", "in_work", "parked"):
        assert again is not None
        # A parking, a lease and a lapsed lease were claims that count.
        assert again.attempts == (1 if lease is None else 2)
        view.ack(again)
    else:
        assert again is None


@each_state
def test_pause_and_resume(q: Queue, clock: Clock, state: State) -> None:
    view = q.open(clock=clock)
    lease = state.prepare(view, clock)
    for _ in range(2):
        view.pause(GROUP)
        [group] = view.groups()
        assert (group.state, group.depth) == ("paused", state.messages)
        assert view.claim("w") is None
    if state.holds:
        assert lease is not None and settles(view, lease)
    clock.advance(100)
    assert view.claim("w") is None
    for _ in range(2):
        view.resume(GROUP)
    left = state.messages - state.holds
    assert [group.state for group in view.groups()] == ["claimable"] * left
    assert len(view.claim_many("w", 60, 10)) == left


@each_state
def test_pause_and_resume_of_the_queue(q: Queue, clock: Clock, state: State) -> None:
    view = q.open(clock=clock)
    lease = state.prepare(view, clock)
    for _ in range(2):
        view.pause()
        assert view.claim("w") is None
        stats = view.stats()
        assert stats.queue_paused
        assert (stats.paused, stats.claimable, stats.in_work) == (stats.groups, 0, state.holds)
        assert {group.state for group in view.groups()} <= {"paused"}
    if state.holds:
        assert lease is not None and settles(view, lease)
    clock.advance(100)
    assert view.claim("w") is None
    for _ in range(2):
        view.resume()
    assert not view.stats().queue_paused
    # A group that was paused by name stays so.
    left = 0 if state.shown == "paused" else state.messages - state.holds
    assert len(view.claim_many("w", 60, 10)) == left


@each_state
@pytest.mark.parametrize("whole", [False, True], ids=["group", "everything"])
def test_purge(q: Queue, clock: Clock, state: State, whole: bool) -> None:
    view = q.open(clock=clock)
    lease = state.prepare(view, clock)
    view.publish("other", "b")
    dead = view.dead_letters()
    count = view.purge(everything=True) if whole else view.purge(GROUP)
    goes = state.messages - state.holds
    assert count == goes + whole
    assert len(view.peek("other")) == 1 - whole
    assert view.stats().messages == state.holds + (1 - whole)
    assert (view.purge(everything=True) if whole else view.purge(GROUP)) == 0
    assert view.dead_letters() == dead
    stays = state.shown == "paused" or state.holds
    assert [group.group_id for group in view.groups() if group.group_id == GROUP] == [GROUP] * stays
    if lease is not None:
        assert settles(view, lease) == state.holds


@each_state
def test_redrive_and_drop_dead_letters(q: Queue, clock: Clock, state: State) -> None:
    view = q.open(clock=clock)
    state.prepare(view, clock)
    dead = [letter.seq for letter in view.dead_letters()]
    before = view.stats().messages
    assert view.redrive(GROUP) == len(dead)
    assert view.stats().messages == before + len(dead)
    assert view.dead_letters() == []
    for _ in dead:
        view.dead_letter(take(view), "again")
    assert view.drop_dead_letters([*dead, 4711]) == len(dead)
    assert view.drop_dead_letters(dead) == 0
    assert view.redrive() == 0
    assert view.stats().messages == before
