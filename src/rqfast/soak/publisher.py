"""A process that publishes."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from itertools import count

from .calls import DONE, REFUSED
from .journal import Folder
from .process import Job, check_parent, in_process
from .recorder import Item, Recorder

PAUSE = 0.02
AGAIN = 0.1
SHARES = (0.05, 0.2, 1.0)


def publish(job: Job) -> None:
    """Publish until the parent says to drain; the process's whole life.

    Raises:
        SystemExit: something went wrong; what, stands in the journal.
    """
    in_process(job, lambda recorder, folder: Publisher(job, recorder, folder).run(), last_sign="drain")


class Publisher:
    """The loop of one publisher; its groups are nobody else's.

    Args:
        job: what it was told.
        recorder: by which it publishes.
        folder: where its parent's signs are.
    """

    def __init__(self, job: Job, recorder: Recorder, folder: Folder) -> None:
        self._job = job
        self._recorder = recorder
        self._folder = folder
        self._dice = random.Random(f"{job.seed} {job.who}")
        self._ids = count(1)

    def run(self) -> None:
        """Publish until told to drain."""
        while not self._folder.is_set("drain"):
            check_parent()
            if self._folder.is_set("slow"):
                time.sleep(PAUSE)
            elif self._dice.random() < 0.3:
                self._one()
            else:
                self._many()

    def _item(self) -> Item:
        delay = round(self._dice.uniform(0.02, 0.4), 3) if self._dice.random() < 0.05 else 0.0
        return Item(f"{self._job.who}#{next(self._ids)}", self._dice.choice(self._job.groups), delay)

    def _size(self) -> int:
        return max(1, round(self._dice.choice(SHARES) * self._job.batch))

    def _one(self) -> None:
        item, dedup = self._item(), self._dice.random() < 0.5
        for trial in count(1):
            told = self._recorder.publish(item, trial, dedup=dedup)
            if not self._goes_on(told, dedup=dedup):
                return

    def _many(self) -> None:
        items: Sequence[Item] = [self._item() for _ in range(self._size())]
        dedup = self._dice.random() < 0.5
        for trial in count(1):
            told, done = self._recorder.publish_many(items, trial, dedup=dedup)
            items = items[done:]
            if not items or not self._goes_on(told, dedup=dedup):
                return

    def _goes_on(self, told: str, *, dedup: bool) -> bool:
        """Whether to publish the same again: where nothing was applied, and where a dedup id makes it safe."""
        if told == DONE or self._folder.is_set("drain"):
            return False
        if told != REFUSED and (not dedup or self._dice.random() < 0.3):
            return False
        check_parent()
        time.sleep(AGAIN)
        return True
