"""The processes of a soak, seen from the one that starts them: it kills some, starts others in their place, and stops
all."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.context import SpawnProcess
from typing import Any, Self

from ..demo.crew import without_interrupts
from .journal import Counter, Folder
from .process import Job, SoakError
from .publisher import publish
from .subscriber import subscribe
from .worker import work

READY_SECONDS = 60.0
STOP_SECONDS = 20.0
LOOK_SECONDS = 0.05

LAST_SIGNS = {"p": "drain", "w": "stop", "s": "stop"}
LIVES: dict[str, Callable[[Job], None]] = {"p": publish, "w": work, "s": subscribe}


@dataclass(frozen=True, slots=True)
class Kill:
    """A process was killed.

    Attributes:
        at: when (ns of `time.monotonic_ns`).
        who: its name.
    """

    at: int
    who: str


class Member:
    """One place in the crew: a process, and after a kill the next.

    Args:
        kind: "p", "w" or "s".
        number: of the place.
        job: what its processes are told.
    """

    def __init__(self, kind: str, number: int, job: Job) -> None:
        self.kind = kind
        self.number = number
        self._job = job
        self._starts = 0
        self._process: SpawnProcess | None = None
        self._gone: list[Counter] = []
        self._counter: Counter | None = None

    @property
    def who(self) -> str:
        """The name of its process (str)."""
        return f"{self.kind}{self.number}-{self._starts}"

    @property
    def last_sign(self) -> str:
        """The sign at which its process ends (str)."""
        return LAST_SIGNS[self.kind]

    @property
    def process(self) -> SpawnProcess:
        """Its process."""
        if self._process is None:
            raise SoakError(f"{self.kind}{self.number} was never started")
        return self._process

    @property
    def counter(self) -> Counter:
        """What its process writes down, counted."""
        if self._counter is None:
            raise SoakError(f"{self.kind}{self.number} was never started")
        return self._counter

    def start(self) -> None:
        """Start a process in this place."""
        if self._counter is not None:
            self._gone.append(self._counter)
        self._starts += 1
        job = replace(self._job, who=self.who)
        self._counter = Counter(Folder(job.folder).journal(self.who))
        with without_interrupts():
            self._process = multiprocessing.get_context("spawn").Process(
                target=LIVES[self.kind], args=(job,), name=self.who, daemon=True
            )
            self._process.start()

    def kill(self) -> None:
        """SIGKILL (where there is none, the like), and wait until it is gone.

        Raises:
            SoakError: it is not.
        """
        self.process.kill()
        self.process.join(STOP_SECONDS)
        if self.process.is_alive():
            raise SoakError(f"waited {STOP_SECONDS:g} s for {self.who} to be gone after SIGKILL")
        self.process.close()
        self.counter.read()

    def sums(self) -> tuple[int, int]:
        """Messages that its processes have published, and done."""
        counts = [one.counts for one in [*self._gone, self.counter]]
        return sum(one.published for one in counts), sum(one.done for one in counts)


class Crew:
    """Publishers, workers and services with subscriptions; entered, they run, and left, none does.

    Args:
        publishers, workers, subscribers: what each is told.
        folder: where they write.
        dice: which is killed.

    Attributes:
        kills: those so far.
        dead: processes that ended though nobody killed or stopped them, each with its reason (list of str).
    """

    def __init__(
        self, publishers: list[Job], workers: list[Job], subscribers: list[Job], folder: Folder, dice: random.Random
    ) -> None:
        self._folder = folder
        self._dice = dice
        self._publishers = [Member("p", number, job) for number, job in enumerate(publishers, 1)]
        self._workers = [Member("w", number, job) for number, job in enumerate(workers, 1)]
        self._workers += [Member("s", number, job) for number, job in enumerate(subscribers, 1)]
        self._all = [*self._publishers, *self._workers]
        self.kills: list[Kill] = []
        self.dead: list[str] = []
        self.published: int = 0
        self.done: int = 0

    def __enter__(self) -> Self:
        try:
            for member in self._all:
                member.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: Any) -> None:
        self._end()

    def wait_ready(self) -> None:
        """Wait until each has the queue open.

        Raises:
            SoakError: one ended, or was not ready in time.
        """
        end = time.monotonic() + READY_SECONDS
        while late := [member.who for member in self._all if not member.counter.counts.ready]:
            self.look()
            if self.dead:
                raise SoakError(f"a process did not start: {self.dead[0]}")
            if time.monotonic() > end:
                raise SoakError(f"waited {READY_SECONDS:g} s for {', '.join(late)} to open the queue")
            time.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Read what is new, and see who ended by itself: before it was told to, or not well; it is noted in `dead`."""
        killed = {kill.who for kill in self.kills}
        for member in self._all:
            code = member.process.exitcode
            is_told = self._folder.is_set(member.last_sign)
            member.counter.read()
            known = member.who in killed or any(line.startswith(f"{member.who} ") for line in self.dead)
            if code is not None and (code or not is_told) and not known:
                reason = member.counter.counts.error or "no reason is written down"
                self.dead.append(f"{member.who} ended by itself with exit code {code}: {reason}")
        sums = [member.sums() for member in self._all]
        self.published = sum(published for published, _ in sums)
        self.done = sum(done for _, done in sums)

    def kill_one(self) -> Kill:
        """Kill a process, one in four times a publisher, and start another in its place."""
        members = self._publishers if self._dice.random() < 0.25 else self._workers
        member = self._dice.choice(members)
        kill = Kill(time.monotonic_ns(), member.who)
        member.kill()
        self.kills.append(kill)
        member.start()
        return kill

    def wait_publishers(self, seconds: float) -> None:
        """Wait until publishers have ended, once they were told to; those that have not are killed.

        What they were publishing is then unknown, as after any kill.
        """
        end = time.monotonic() + seconds
        for member in self._publishers:
            member.process.join(max(0.0, end - time.monotonic()))
            if member.process.is_alive():
                self.kills.append(Kill(time.monotonic_ns(), member.who))
                member.process.kill()
                member.process.join(STOP_SECONDS)

    def stop(self, seconds: float) -> None:
        """Tell all to stop, and wait until they have; those that do not are in `dead`."""
        self._folder.set("stop")
        end = time.monotonic() + seconds
        for member in self._all:
            member.process.join(max(0.0, end - time.monotonic()))
            if member.process.is_alive():
                self.dead.append(f"{member.who} was still at work {seconds:g} s after it was told to stop")
        self.look()

    def _end(self) -> None:
        """End those that still run."""
        for member in self._all:
            with suppress(SoakError, ValueError):  # never started, or closed
                member.process.kill()
                member.process.join(STOP_SECONDS)
                member.process.close()
