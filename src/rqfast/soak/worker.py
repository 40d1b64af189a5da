"""A process that claims and settles, in every way there is."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from .calls import DONE, LOST
from .journal import Folder
from .process import Job, check_parent, in_process
from .recorder import Recorder, Taken

LIMITS = {0.0: 1, 0.04: 1, 0.16: 2, 0.64: 4}
"""How much of the largest batch is claimed: how often."""
ODD = (2, 8)
"""Of one claim so many times up to so many messages have another fate than the others, which are done."""
SHORT = 0.1
LATE = 1.0
AGAIN = 0.1
MOST_LATE = 8

FATES = {
    "done": 300,
    "ack": 120,
    "ack_many": 100,
    "nack": 90,
    "park": 70,
    "nack_many": 60,
    "defer": 80,
    "extend": 80,
    "dead_letter": 50,
    "late": 50,
}
"""What becomes of these, by chance: how often in a thousand."""


def work(job: Job) -> None:
    """Claim and settle until the parent says stop; the process's whole life.

    Raises:
        SystemExit: something went wrong; what, stands in the journal.
    """
    in_process(job, lambda recorder, folder: Worker(job, recorder, folder).run())


class Worker:
    """The loop of one worker.

    Args:
        job: what it was told.
        recorder: by which it calls.
        folder: where its parent's signs are.
    """

    def __init__(self, job: Job, recorder: Recorder, folder: Folder) -> None:
        self._job = job
        self._recorder = recorder
        self._folder = folder
        self._dice = random.Random(f"{job.seed} {job.who}")
        self._done: dict[int, Taken] = {}
        self._late: list[tuple[float, Taken]] = []
        self._dead: list[int] = []
        self._settle: dict[str, Callable[[list[Taken]], object]] = {
            "done": self._keep,
            "ack": lambda all_: self._each("ack", all_),
            "ack_many": lambda all_: self._recorder.settle_many("ack", all_),
            "nack": lambda all_: self._each("nack", all_, 0),
            "park": lambda all_: self._each("nack", all_, self._some(0.3)),
            "nack_many": lambda all_: self._recorder.settle_many("nack", all_, 0),
            "defer": lambda all_: self._each("defer", all_, self._some(0.3)),
            "extend": self._extend,
            "dead_letter": self._bury,
            "late": self._hold,
        }

    def run(self) -> None:
        """Claim and settle until told to stop."""
        while not self._folder.is_set("stop"):
            check_parent()
            draining = self._folder.is_set("drain")
            self._settle_late(all_of_them=draining)
            self._work(self._claim(), draining=draining)
            if self._dead and (draining or self._dice.random() < 0.1):
                self._recorder.redrive(self._dead)
                self._dead = []
        self._flush()

    def _claim(self) -> list[Taken]:
        """Claim one or many, with what is done acknowledged in the same commit, or before."""
        visibility = self._some(SHORT + 1.0) + SHORT if self._dice.random() < 0.1 else self._job.visibility
        if len(self._done) > 1 and self._dice.random() < 0.3:
            self._flush()
        done = list(self._done.values())
        self._done.clear()
        if len(done) <= 1 and self._dice.random() < 0.3:
            told, taken = self._recorder.claim(visibility, done[0] if done else None)
        else:
            [share] = self._dice.choices(tuple(LIMITS), tuple(LIMITS.values()))
            limit = max(1, round(share * self._job.batch))
            told, taken = self._recorder.claim_many(visibility, limit, done)
        if told == LOST and len(done) > 1:
            self._recorder.settle_many("ack", done)
        elif told not in (DONE, LOST):
            self._keep(done)
            time.sleep(AGAIN)
        return taken

    def _work(self, taken: Sequence[Taken], *, draining: bool) -> None:
        if taken and self._dice.random() < 0.05:
            time.sleep(self._some(0.02))
        if draining:
            self._keep(taken)
            return
        rest = list(taken)
        self._dice.shuffle(rest)
        times, most = ODD
        for _ in range(times):
            if rest:
                [fate] = self._dice.choices(tuple(FATES), tuple(FATES.values()))
                size = self._dice.randint(1, most)
                self._settle[fate](rest[:size])
                rest = rest[size:]
        self._keep(rest)

    def _extend(self, taken: list[Taken]) -> None:
        if len(taken) > 1:
            self._recorder.settle_many("extend", taken, self._job.visibility)
        else:
            self._recorder.settle("extend", taken[0], self._some(1.0) + SHORT)
        self._keep(taken)

    def _bury(self, taken: list[Taken]) -> None:
        if len(taken) > 1:
            self._recorder.settle_many("dead_letter", taken, "by chance")
        else:
            self._recorder.settle("dead_letter", taken[0], "by chance")
        self._dead += [one.lease.seq for one in taken]

    def _hold(self, taken: list[Taken]) -> None:
        """Keep some until their leases are over."""
        room = max(0, MOST_LATE - len(self._late))
        for one in taken[:room]:
            at = time.monotonic() + one.lease.remaining() + self._some(LATE) - SHORT
            self._late.append((at, one))
        self._keep(taken[room:])

    def _settle_late(self, *, all_of_them: bool) -> None:
        now = time.monotonic()
        due = [one for at, one in self._late if all_of_them or at <= now]
        self._late = [(at, one) for at, one in self._late if not all_of_them and at > now]
        for one in due:
            how, arguments = self._dice.choice(
                [("ack", ()), ("ack", ()), ("nack", (0,)), ("defer", (0.1,)), ("extend", (0.5,))]
            )
            if self._recorder.settle(how, one, *arguments) == DONE and how == "extend":
                self._recorder.settle("ack", one)

    def _keep(self, taken: Sequence[Taken]) -> None:
        """Acknowledge these with the next claim; of two leases of one message only the newer."""
        self._done |= {one.lease.seq: one for one in taken}

    def _flush(self) -> None:
        """Acknowledge what is done."""
        if self._done:
            self._recorder.settle_many("ack", list(self._done.values()))
            self._done.clear()

    def _some(self, seconds: float) -> float:
        return round(self._dice.uniform(0.0, seconds), 3)

    def _each(self, how: str, taken: Sequence[Taken], *arguments: Any) -> None:
        """Settle one, then the others in one call."""
        first, *others = taken
        self._recorder.settle(how, first, *arguments)
        if others:
            self._recorder.settle_many(how, others, *arguments)
