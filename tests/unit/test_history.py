"""The checker of histories: each rule is found where it is broken on purpose, and what may happen passes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rqfast.soak.calls import DONE, LOST, REFUSED, SECOND, UNKNOWN, Call, Held, Sent, Settled, Totals
from rqfast.soak.faults import Fault
from rqfast.soak.figures import measure
from rqfast.soak.history import RULES, Verdict, check
from rqfast.soak.lives import Lives
from rqfast.soak.pauses import pauses
from rqfast.soak.shown import show

VISIBILITY = 5.0


def ns(seconds: float) -> int:
    return round(seconds * SECOND)


class History:
    """Writes a history, a call after the other; each takes 10 ms unless said otherwise."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.now = 10.0
        self._n = itertools.count(1)
        self._seqs = itertools.count(101)
        self._fences = itertools.count(1)
        self.sent: dict[str, tuple[str, int]] = {}
        self.attempts: dict[str, int] = {}

    def at(self, seconds: float) -> History:
        """Go on so much later than the begin."""
        self.now = 10.0 + seconds
        return self

    def call(self, name: str, who: str, took: float = 0.01, **fields: Any) -> Call:
        begun = ns(self.now)
        self.now += took
        call = Call(who, next(self._n), name, begun, ns(self.now), fields.pop("told", DONE), **fields)
        self.now += 0.001
        self.calls.append(call)
        return call

    def publish(
        self, name: str, group: str = "g", told: str = DONE, *, delay: float = 0.0, trial: int = 1, applied: bool = True
    ) -> Call:
        seq = next(self._seqs) if name not in self.sent else self.sent[name][1]
        if applied:
            self.sent[name] = (group, seq)
        sent = Sent(name, group, told, seq if told == DONE else None, delay, trial)
        return self.call("publish", "p", sent=[sent], told=told)

    def claim(self, name: str, who: str = "w", visibility: float = VISIBILITY, **held: Any) -> Call:
        group, seq = self.sent.get(name, ("g", 0))
        attempts = self.attempts[name] = self.attempts.get(name, 0) + 1
        fields: dict[str, Any] = {"attempts": attempts, "fence": next(self._fences), **held}
        lease = Held(**{"seq": seq, "group": group, "id": name, **fields})
        return self.call("claim", who, held=[lease], seconds=visibility, limit=1)

    def settle(self, how: str, claim: Call, told: str = DONE, seconds: float = 0.0) -> Call:
        settled = [Settled(claim.n, claim.held[0].seq, told)]
        return self.call(how, claim.who, settled=settled, told=told, seconds=seconds)

    def work(self, name: str, who: str = "w") -> Call:
        """Claim and acknowledge."""
        claim = self.claim(name, who)
        self.settle("ack", claim)
        return claim

    def end(self, *left: str, dead: tuple[str, ...] = (), messages: int | None = None) -> History:
        """What is there at the end, and what stats() says."""
        totals = Totals(len(left) if messages is None else messages, len(dead), 0, 0)
        self.call("stats", "driver", totals=totals)
        for what, names in (("left", left), ("dead", dead)):
            held = [Held(self.sent[name][1], self.sent[name][0], name, 0, 0) for name in names]
            self.call(what, "driver", held=held)
        return self

    def verdict(self) -> Verdict:
        return check(self.calls)

    def broken(self) -> set[str]:
        return set(self.verdict().counts)


@pytest.fixture
def history() -> History:
    return History()


def filled(history: History, count: int = 3) -> History:
    for number in range(1, count + 1):
        history.publish(f"m{number}")
    return history


def held_of(claim: Call) -> Held:
    return claim.held[0]


# -- good histories ----------------------------------------------------------------------------------------


def test_a_plain_history_passes(history: History) -> None:
    filled(history)
    for name in ("m1", "m2", "m3"):
        history.work(name)
    verdict = history.end().verdict()
    assert verdict.passed, verdict.broken
    shown = show(Lives(history.calls))
    assert (shown.messages, shown.confirmed, shown.done, shown.leases, shown.groups) == (3, 3, 3, 3, 1)
    assert (shown.lapses, shown.taken_over, shown.unknown) == (0, 0, {})
    assert sum(measure(Lives(history.calls)).done) == 3


def test_the_order_of_the_records_does_not_matter(history: History) -> None:
    filled(history).work("m2")
    assert check(history.calls[::-1]) == history.verdict()
    assert not history.verdict().passed


def test_an_empty_history_passes() -> None:
    assert check([]).passed
    assert show(Lives([])).messages == 0
    assert measure(Lives([])).published == [0]


def test_a_lease_that_lapsed_may_be_taken_over(history: History) -> None:
    filled(history, 1).claim("m1", "w1")
    history.at(VISIBILITY + 0.1).work("m1", "w2")
    assert history.end().verdict().passed
    shown = show(Lives(history.calls), {"w1"})
    assert (shown.lapses, shown.taken_over, shown.orphans) == (1, 1, 1)
    assert shown.longest_take_over == pytest.approx(0.09, abs=0.05)
    assert shown.longest_pause == pytest.approx(5.1, abs=0.1)


def test_a_lapsed_lease_may_be_settled_while_nobody_else_claimed(history: History) -> None:
    claim = filled(history, 1).claim("m1")
    history.at(20).settle("ack", claim)
    assert history.end().verdict().passed
    shown = show(Lives(history.calls))
    assert (shown.late, shown.lapses) == (1, 0)


def test_a_lapsed_lease_may_be_lost(history: History) -> None:
    late = filled(history, 1).claim("m1", "w1")
    history.at(6)
    taken = history.claim("m1", "w2")
    history.settle("ack", late, LOST)
    history.settle("ack", taken)
    assert history.end().verdict().passed
    assert show(Lives(history.calls)).refused == 1


def test_what_was_given_back_is_claimed_again(history: History) -> None:
    filled(history, 2)
    for delay in (0.0, 0.5):
        history.settle("nack", history.claim("m1"), seconds=delay)
    history.work("m1")
    history.work("m2")
    assert history.end().verdict().passed


def test_what_was_deferred_goes_behind(history: History) -> None:
    filled(history, 2)
    history.settle("defer", history.claim("m1"), seconds=0.3)
    history.work("m2")
    history.at(2).work("m1")
    assert history.end().verdict().passed


def test_a_defer_whose_outcome_is_unknown_brings_back_nothing_that_was_acknowledged(history: History) -> None:
    filled(history, 1)
    old = history.claim("m1", "w1")
    history.at(VISIBILITY + 0.1).work("m1", "w2")
    history.settle("defer", old, told=UNKNOWN)
    history.at(VISIBILITY + 30).publish("later")
    history.work("later")
    assert history.end().verdict().passed


def test_a_delayed_message_holds_back_nobody(history: History) -> None:
    history.publish("m1", delay=1.0)
    history.publish("m2")
    history.work("m2")
    history.at(2).work("m1")
    assert history.end().verdict().passed


def test_a_dead_letter_that_was_redriven_comes_before_what_was_published_later(history: History) -> None:
    filled(history, 3)
    history.settle("dead_letter", history.claim("m1"))
    history.work("m2")
    history.call("redrive", "driver", count=1)
    history.attempts["m1"] = 0
    history.work("m1")
    history.work("m3")
    assert history.end().verdict().passed


@pytest.mark.parametrize("applied", [True, False])
def test_an_unknown_publish_may_be_in_or_not(history: History, applied: bool) -> None:
    history.publish("m1", told=UNKNOWN)
    history.publish("m2")
    if applied:
        history.work("m1")
    history.work("m2")
    assert history.end().verdict().passed
    ended = show(Lives(history.calls)).unknown["publish"]
    assert (ended.applied, ended.not_applied) == ((1, 0) if applied else (0, 1))


def test_an_unknown_publish_that_was_repeated_is_one_message(history: History) -> None:
    history.publish("m1", told=UNKNOWN)
    history.publish("m1", trial=2)
    history.work("m1")
    assert history.end().verdict().passed
    assert show(Lives(history.calls)).unknown["publish"].applied == 1


@pytest.mark.parametrize("applied", [True, False])
def test_an_unknown_ack_may_have_been_applied_or_not(history: History, applied: bool) -> None:
    filled(history, 2)
    history.settle("ack", history.claim("m1"), UNKNOWN)
    if not applied:
        history.at(6).work("m1")
    history.work("m2")
    assert history.end().verdict().passed
    ended = show(Lives(history.calls)).unknown["ack"]
    assert (ended.applied, ended.not_applied) == ((1, 0) if applied else (0, 1))


def test_a_claim_that_nobody_was_told_of_counts_as_an_attempt(history: History) -> None:
    filled(history, 1)
    history.call("claim_many", "w1", told=UNKNOWN, seconds=VISIBILITY, limit=4)
    history.attempts["m1"] = 1
    history.at(7).work("m1", "w2")
    assert history.end().verdict().passed
    assert show(Lives(history.calls)).unknown["claim_many"].untold == 1


def test_a_claim_whose_leases_ended_before_its_reply_counts_as_an_attempt(history: History) -> None:
    """Another has the message by then, and it is told of none."""
    filled(history, 1)
    history.call("claim", "slow", took=0.4, seconds=0.5, limit=1)
    history.attempts["m1"] = 1
    history.work("m1", "w2")
    assert history.end().verdict().passed


def test_a_process_that_was_killed_in_a_call_leaves_it_unknown(history: History) -> None:
    claim = filled(history, 2).claim("m1")
    ack = history.settle("ack", claim, UNKNOWN)
    ack.ended = None
    publish = history.publish("m3", told=UNKNOWN)
    publish.ended = None
    history.work("m2")
    assert history.end().verdict().passed


def test_an_extended_lease_lives_longer(history: History) -> None:
    claim = filled(history, 1).claim("m1")
    history.at(4).settle("extend", claim, seconds=5)
    history.at(8).settle("ack", claim)
    assert history.end().verdict().passed


def test_another_message_may_be_in_work_between_the_end_of_a_lease_and_an_extend_that_came_late(
    history: History,
) -> None:
    filled(history, 2)
    history.settle("dead_letter", history.claim("m1", "w1"))
    second = history.at(1).claim("m2", "w2")
    history.at(5).call("extend", "w2", took=2.0, settled=[Settled(second.n, held_of(second).seq, DONE)], seconds=5.0)
    history.at(5.5).call("redrive", "w1", count=1)
    history.attempts["m1"] = 0
    history.at(6.1).work("m1", "w1")
    history.at(7.5).settle("ack", second)
    assert history.end().verdict().passed


def test_an_ack_in_the_claim_of_the_next(history: History) -> None:
    first = filled(history, 2).claim("m1")
    second = history.claim("m2")
    second.settled = [Settled(first.n, held_of(first).seq, DONE)]
    history.settle("ack", second)
    assert history.end().verdict().passed


# -- one for each rule -------------------------------------------------------------------------------------


def test_a_lost_message_is_found(history: History) -> None:
    filled(history, 2).work("m1")
    verdict = history.end().verdict()
    assert set(verdict.counts) == {"lost", "stats"}
    [lost] = [one for one in verdict.broken if one.rule == "lost"]
    assert lost.text == "m2 of group g was never done, and is gone" and lost.calls == (history.calls[1],)


def test_a_lost_message_that_was_claimed_is_found(history: History) -> None:
    filled(history, 1).claim("m1")
    assert "lost" in history.end().broken()


def test_a_dead_letter_that_is_gone_is_lost(history: History) -> None:
    history.settle("dead_letter", filled(history, 1).claim("m1"))
    assert "lost" in history.end().broken()


def test_a_message_left_behind_is_found(history: History) -> None:
    filled(history, 2).work("m1")
    assert history.end("m2").broken() == {"left"}


def test_a_dead_letter_left_behind_is_found(history: History) -> None:
    history.settle("dead_letter", filled(history, 1).claim("m1"))
    assert history.end(dead=("m1",)).broken() == {"left"}


def test_two_confirmed_acks_are_found(history: History) -> None:
    filled(history, 1).work("m1", "w1")
    history.at(7).work("m1", "w2")
    assert {"twice", "again"} <= history.end().broken()


def test_a_message_under_two_seqs_is_found(history: History) -> None:
    filled(history, 1).work("m1")
    history.attempts.clear()
    history.settle("ack", history.claim("m1", seq=999), UNKNOWN)
    assert "twice" in history.end().broken()


def test_a_message_that_comes_again_after_its_ack_is_found(history: History) -> None:
    filled(history, 1).work("m1")
    history.settle("nack", history.claim("m1"))
    assert "again" in history.end().broken()


def test_two_live_leases_of_a_group_are_found(history: History) -> None:
    filled(history, 2)
    first, second = history.claim("m1", "w1"), history.claim("m2", "w2")
    history.at(1).settle("ack", first)
    history.settle("ack", second)
    verdict = history.end().verdict()
    assert {"two", "order"} == set(verdict.counts)
    [two] = [one for one in verdict.broken if one.rule == "two"]
    assert two.calls == (first, second)


def test_two_live_leases_of_a_message_are_found(history: History) -> None:
    filled(history, 1)
    history.claim("m1", "w1")
    history.at(3).work("m1", "w2")
    assert history.end().broken() == {"two"}


def test_a_lease_that_ended_early_is_found_also_after_an_extend(history: History) -> None:
    claim = filled(history, 1).claim("m1", "w1")
    history.at(4).settle("extend", claim, seconds=5)
    history.at(8).work("m1", "w2")
    assert history.end().broken() == {"two"}


def test_a_live_lease_that_was_lost_is_found(history: History) -> None:
    claim = filled(history, 1).claim("m1")
    history.at(2).settle("ack", claim, LOST)
    history.at(7).work("m1")
    assert history.end().broken() == {"early"}


def test_a_lease_that_was_settled_may_be_refused_after_it(history: History) -> None:
    claim = filled(history, 1).claim("m1")
    history.settle("ack", claim, UNKNOWN)
    history.settle("ack", claim, LOST)
    assert history.end().verdict().passed


def test_a_settlement_of_an_old_lease_that_was_accepted_is_found(history: History) -> None:
    filled(history, 1)
    old = history.claim("m1", "w1")
    new = history.at(6).claim("m1", "w2")
    history.settle("nack", old)
    history.settle("ack", new)
    verdict = history.end().verdict()
    assert set(verdict.counts) == {"fenced"}
    assert verdict.broken[0].calls == (old, new, history.calls[-5])


def test_fences_that_fall_are_found(history: History) -> None:
    filled(history, 2)
    history.settle("ack", history.claim("m1", fence=9))
    history.settle("ack", history.claim("m2", fence=8))
    assert history.end().broken() == {"fenced"}


def test_fences_that_are_equal_are_found(history: History) -> None:
    filled(history, 2)
    history.settle("ack", history.claim("m1", fence=9))
    history.settle("ack", history.claim("m2", fence=9))
    assert history.end().broken() == {"fenced"}


def test_a_message_that_comes_before_the_head_is_found(history: History) -> None:
    filled(history, 2).work("m2")
    history.work("m1")
    verdict = history.end().verdict()
    assert set(verdict.counts) == {"order"}
    assert verdict.broken[0].text == "group g: 102 was claimed while 101 was before it"


def test_a_group_that_goes_on_past_a_lapsed_lease_is_found(history: History) -> None:
    filled(history, 2).claim("m1", "w1")
    history.at(7).work("m2", "w2")
    history.work("m1")
    assert history.end().broken() == {"order"}


def test_a_group_that_goes_on_past_what_is_parked_is_found(history: History) -> None:
    history.settle("nack", filled(history, 2).claim("m1"), seconds=1)
    history.work("m2")
    history.at(3).work("m1")
    assert history.end().broken() == {"order"}


def test_a_deferred_message_that_comes_too_early_is_found(history: History) -> None:
    history.publish("m1")
    history.settle("defer", history.claim("m1"), seconds=3)
    history.publish("m2")
    history.work("m1")
    history.work("m2")
    assert history.end().broken() == {"order"}


def test_seqs_against_the_order_of_publishing_are_found(history: History) -> None:
    filled(history, 2)
    first, second = history.calls
    first.sent = [first.sent[0]._replace(seq=102)]
    second.sent = [second.sent[0]._replace(seq=101)]
    history.sent = {"m1": ("g", 102), "m2": ("g", 101)}
    history.work("m2")
    history.work("m1")
    assert history.end().broken() == {"order"}


def test_seqs_against_the_order_in_one_call_are_found(history: History) -> None:
    history.call("publish_many", "p", sent=[Sent("m1", "g", DONE, 2), Sent("m2", "g", DONE, 1)])
    history.sent = {"m1": ("g", 2), "m2": ("g", 1)}
    history.work("m2")
    history.work("m1")
    assert history.end().broken() == {"order"}


@pytest.mark.parametrize("attempts", [0, 1, 3])
def test_attempts_that_do_not_add_up_are_found(history: History, attempts: int) -> None:
    history.settle("nack", filled(history, 1).claim("m1"))
    history.settle("ack", history.claim("m1", attempts=attempts))
    assert history.end().broken() == {"attempts"}


def test_attempts_that_begin_anew_without_a_redrive_are_found(history: History) -> None:
    filled(history, 1)
    history.settle("dead_letter", history.claim("m1"))
    history.settle("ack", history.claim("m1", attempts=1))
    assert history.end().broken() == {"attempts"}


def test_more_attempts_than_unknown_claims_asked_for_are_found(history: History) -> None:
    filled(history, 3)
    history.call("claim", "w1", told=UNKNOWN, seconds=0.1, limit=1)
    history.at(2)
    for name in ("m1", "m2", "m3"):
        history.attempts[name] = 1
        history.work(name)
    assert history.end().broken() == {"attempts"}


def buried(history: History) -> History:
    """m1 is a dead letter, and brought back."""
    history.settle("dead_letter", filled(history, 1).claim("m1"))
    history.call("redrive", "driver", count=1)
    return history


def test_attempts_that_begin_anew_some_leases_after_a_redrive_are_found(history: History) -> None:
    history.settle("nack", buried(history).claim("m1", attempts=1))
    history.settle("ack", history.claim("m1", attempts=1))
    assert history.end().broken() == {"attempts"}


def test_a_redrive_before_the_dead_letter_is_none_of_it(history: History) -> None:
    history.call("redrive", "driver")
    history.settle("dead_letter", filled(history, 1).claim("m1"))
    history.settle("ack", history.claim("m1", attempts=1))
    assert history.end().broken() == {"attempts"}


@pytest.mark.parametrize("attempts", [2, 3])
def test_attempts_that_go_on_after_a_redrive_are_found(history: History, attempts: int) -> None:
    history.settle("ack", buried(history).claim("m1", attempts=attempts))
    assert history.end().broken() == {"attempts"}


@pytest.mark.parametrize(("told", "attempts"), [(DONE, 1), (UNKNOWN, 1), (UNKNOWN, 2)])
def test_attempts_after_what_may_have_been_a_dead_letter(history: History, told: str, attempts: int) -> None:
    history.settle("dead_letter", filled(history, 1).claim("m1"), told)
    history.at(7).call("redrive", "driver", count=1)
    history.settle("ack", history.claim("m1", attempts=attempts))
    assert history.end().verdict().passed


def test_a_claim_that_nobody_was_told_of_counts_after_a_redrive(history: History) -> None:
    buried(history).call("claim", "w1", told=UNKNOWN, seconds=VISIBILITY, limit=1)
    history.at(7).settle("ack", history.claim("m1", attempts=2))
    assert history.end().verdict().passed


def test_a_claim_that_nobody_was_told_of_counts_once_for_a_message(history: History) -> None:
    filled(history, 1).call("claim_many", "w1", told=UNKNOWN, seconds=0.1, limit=64)
    history.settle("nack", history.at(1).claim("m1", attempts=2))
    history.settle("ack", history.claim("m1", attempts=4))
    assert history.end().broken() == {"attempts"}


def test_a_claim_that_nobody_was_told_of_counts_for_several_messages(history: History) -> None:
    for name in ("m1", "m2"):
        history.publish(name, group=name)
    history.call("claim_many", "w1", told=UNKNOWN, seconds=0.1, limit=64)
    for name in ("m1", "m2"):
        history.settle("ack", history.at(1).claim(name, attempts=2))
    assert history.end().verdict().passed


@pytest.mark.parametrize(("later", "rules"), [(5.0, set()), (19.0, set()), (21.0, {"attempts"})])
@pytest.mark.parametrize("killed", [False, True])
def test_a_claim_may_be_applied_after_its_call(history: History, later: float, rules: set[str], killed: bool) -> None:
    """For the timeout of a call (10 s), and 10 s."""
    claim = history.call("claim", "w1", told=UNKNOWN, seconds=0.1, limit=1)
    claim.ended = None if killed else claim.ended
    filled(history.at(later), 1)
    history.settle("ack", history.at(later + 2).claim("m1", attempts=2))
    assert history.end().broken() == rules


def test_a_claim_before_the_lease_before_counts_in_that(history: History) -> None:
    filled(history, 1).call("claim", "w1", told=UNKNOWN, seconds=0.1, limit=1)
    history.settle("nack", history.at(30).claim("m1"))
    history.settle("ack", history.claim("m1", attempts=3))
    assert history.end().broken() == {"attempts"}


def test_two_claims_that_nobody_was_told_of_count_each_where_it_can(history: History) -> None:
    """The first may have been either; the second only the later one."""
    filled(history, 1).call("claim", "w1", told=UNKNOWN, seconds=0.1, limit=1)
    history.settle("nack", history.at(1).claim("m1", attempts=2))
    history.call("claim", "w1", told=UNKNOWN, seconds=0.1, limit=1)
    history.settle("ack", history.at(2).claim("m1", attempts=4))
    assert history.end().verdict().passed


def test_a_list_that_was_not_told_says_nothing(history: History) -> None:
    filled(history, 1)
    history.end("m1")
    history.calls[-2].told, history.calls[-2].held = REFUSED, []
    assert history.broken() == {"lost"}
    history.at(5).end("m1")
    assert history.broken() == {"left"}


def test_a_refused_publish_that_is_there_is_found(history: History) -> None:
    history.publish("m1", told=REFUSED)
    history.work("m1")
    assert "refused" in history.end().broken()


def test_a_refused_publish_that_was_repeated_is_found_by_its_trial(history: History) -> None:
    history.publish("m1", told=REFUSED)
    history.publish("m1", trial=2)
    history.work("m1")
    assert history.end().broken() == {"refused"}


@pytest.mark.parametrize("wrong", [{"intact": False}, {"group": "h"}])
def test_a_changed_message_is_found(history: History, wrong: dict[str, Any]) -> None:
    filled(history, 1)
    history.settle("ack", history.claim("m1", **wrong))
    assert history.end().broken() == {"changed"}


def test_a_message_that_nobody_published_is_found(history: History) -> None:
    history.work("m9")
    assert history.end().broken() == {"changed"}


def test_stats_that_tell_too_many_at_the_end_are_found(history: History) -> None:
    filled(history, 1).work("m1")
    assert history.end(messages=1).broken() == {"stats"}


@pytest.mark.parametrize("messages", [1, 4])
def test_stats_on_the_way_that_cannot_be_are_found(history: History, messages: int) -> None:
    filled(history, 3)
    history.call("stats", "driver", totals=Totals(messages, 0, 1, 0))
    for name in ("m1", "m2", "m3"):
        history.work(name)
    assert history.end().broken() == {"stats"}


def test_every_rule_has_a_name() -> None:
    assert len(RULES) == len(set(RULES)) == 12


# -- made by chance ----------------------------------------------------------------------------------------


class Queue:
    """A queue that keeps the rules, with a history of what its callers were told; one group after another."""

    def __init__(self) -> None:
        self.history = History()
        self.groups: dict[str, list[str]] = {"g0": [], "g1": []}
        self.count = itertools.count(1)
        self.dead: list[tuple[str, str]] = []

    def publish(self, group: str, told: str, applied: bool) -> None:
        name = f"m{next(self.count)}"
        self.history.publish(name, group, told, applied=applied)
        if applied:
            self.groups[group].append(name)

    def work(self, group: str, how: str, told: str, applied: bool) -> None:
        """Claim the head, and settle it; a lease that was not settled lapses."""
        if not self.groups[group]:
            return
        name = self.groups[group][0]
        claim = self.history.claim(name)
        if how != "lapse":
            self.history.settle(how, claim, told)
        if how in ("ack", "dead_letter") and applied:
            self.groups[group].remove(name)
        if how == "dead_letter" and applied:
            self.dead.append((group, name))
        if how == "lapse" or not applied:
            self.history.now += VISIBILITY + 0.5

    def redrive(self) -> None:
        self.history.call("redrive", "driver", count=len(self.dead))
        for group, name in self.dead:
            self.groups[group] = sorted([*self.groups[group], name], key=lambda one: int(one[1:]))
            self.history.attempts[name] = 0
        self.dead = []

    def drain(self) -> None:
        self.redrive()
        for group, names in self.groups.items():
            for _ in range(len(names)):
                self.work(group, "ack", DONE, True)
        self.history.end()


GROUPS = st.sampled_from(["g0", "g1"])
HOWS = st.sampled_from(["ack", "ack", "ack", "nack", "dead_letter", "lapse"])
TOLD = st.sampled_from([(DONE, True), (DONE, True), (DONE, True), (UNKNOWN, True), (UNKNOWN, False), (REFUSED, False)])
STEPS = st.one_of(
    st.tuples(st.just("publish"), GROUPS, TOLD),
    st.tuples(st.just("work"), GROUPS, HOWS, TOLD),
    st.tuples(st.just("redrive")),
)


def play(steps: list[Any]) -> Queue:
    queue = Queue()
    for step in steps:
        if step[0] == "publish":
            queue.publish(step[1], *step[2])
        elif step[0] == "work":
            queue.work(step[1], step[2], *step[3])
        else:
            queue.redrive()
    queue.drain()
    return queue


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=40))
def test_what_a_queue_that_keeps_the_rules_tells_passes(steps: list[Any]) -> None:
    verdict = check(play(steps).history.calls)
    assert verdict.passed, verdict.broken


@settings(max_examples=200, deadline=None)
@given(st.lists(STEPS, min_size=3, max_size=40), st.data())
def test_an_ack_that_was_never_sent_is_found(steps: list[Any], data: st.DataObject) -> None:
    calls = play(steps).history.calls
    acks = [place for place, call in enumerate(calls) if call.name == "ack" and call.told == DONE]
    if not acks:
        return
    place = data.draw(st.sampled_from(acks))
    without = [*calls[:place], replace(calls[place], told=LOST, settled=[calls[place].settled[0]._replace(told=LOST)])]
    assert not check(without + calls[place + 1 :]).passed


# -- given back, and the loss of a leader ------------------------------------------------------------------


@pytest.mark.parametrize(("told", "attempts"), [(DONE, 1), (UNKNOWN, 1), (UNKNOWN, 2)])
def test_what_is_given_back_has_no_attempt_spent(history: History, told: str, attempts: int) -> None:
    history.publish("m")
    history.settle("give_back", history.claim("m"), told)
    history.settle("ack", history.claim("m", attempts=attempts))
    assert not history.end().broken()


def test_an_attempt_that_vanishes_is_found(history: History) -> None:
    history.publish("m")
    history.settle("nack", history.claim("m"))
    history.settle("ack", history.claim("m", attempts=1))
    assert history.end().broken() == {"attempts"}


def test_a_pause_is_the_longest_that_a_call_stood_still_after_the_leader_was_lost(history: History) -> None:
    history.publish("m1")
    history.at(1.0).call("publish", "p", took=4.0, sent=[Sent("m2", "g", DONE, 9)])
    history.at(2.5).call("claim_many", "w", took=9.0, limit=1)  # waits for messages
    history.at(9.0).call("publish", "p", took=8.0, sent=[Sent("m3", "g", DONE, 10)])  # begun later
    loss = Fault(ns(12.0), "SIGKILL", "node 1", on_leader=True, election=2.0)
    other = Fault(ns(12.0), "delays", "node 1")
    [pause] = pauses(Lives(history.calls), [loss, other])
    assert (pause.fault, pause.seconds, pause.name) == (loss, 3.0, "publish")


def test_no_call_under_way_is_no_pause(history: History) -> None:
    history.publish("m1")
    [pause] = pauses(Lives(history.calls), [Fault(ns(60.0), "SIGKILL", "node 1", election=2.0)])
    assert (pause.seconds, pause.name) == (0.0, "")


def test_a_lease_that_its_holder_ends_meanwhile_is_not_lost_early(history: History) -> None:
    history.publish("m")
    claim = history.claim("m")
    extend = history.settle("extend", claim, LOST, VISIBILITY)
    history.settle("ack", claim)
    assert history.broken() == {"early"}
    extend.ended = ns(history.now)  # the ack was under way beside it
    assert not history.end().broken()
