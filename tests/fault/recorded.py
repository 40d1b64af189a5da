"""A load that does all that a queue can be asked for, writes down every call, and is checked by its history.

Publishers and workers of the soak run in threads of this process, or in processes whose wall clocks are wrong.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rqfast.demo.journal import Journal
from rqfast.soak.calls import DONE, LOST, REFUSED, SECOND, UNKNOWN, Call
from rqfast.soak.history import check
from rqfast.soak.journal import Counter, Folder
from rqfast.soak.lives import Lives
from rqfast.soak.process import Job
from rqfast.soak.publisher import Publisher
from rqfast.soak.recorder import Recorder, list_dead, list_left
from rqfast.soak.worker import Worker
from tests.cluster import wait_until
from tests.contract.processes import SPAWN, Skew
from tests.contract.views import Address, View, open_address

BACKLOG = 300
LONGEST_TIMEOUT = 30 * SECOND
HOUR = 3600.0


class Crew:
    """Publishers, each with groups of its own, and workers, of one queue.

    Args:
        folder: for what they write down; empty.
        groups: of each publisher.
        visibility: how long most of their leases last (seconds).
    """

    def __init__(
        self, folder: Path, *, publishers: int = 2, workers: int = 3, groups: int = 4, visibility: float = 4.0
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = Folder(folder)
        self.errors: list[BaseException] = []
        self.calls: list[Call] = []
        self.started = time.monotonic_ns()
        # Nothing of url, queue and timeout is read where the view is given.
        job = partial(Job, url="", queue="", folder=folder, seed=1, visibility=visibility)
        self._publishers = [
            job(who=f"publisher-{number}", groups=tuple(f"g{number}-{group}" for group in range(groups)))
            for number in range(publishers)
        ]
        self._workers = [job(who=f"worker-{number}") for number in range(workers)]
        self._counters = [Counter(folder / f"{one.who}.jsonl") for one in (*self._publishers, *self._workers)]
        self._threads: list[threading.Thread] = []
        self._processes: list[Any] = []
        self._counting = threading.Lock()

    # -- life --------------------------------------------------------------------------------------------------

    def start(self, open_view: Callable[[], View]) -> None:
        """Start all in threads; publishers share one transport, workers another."""
        publishing, working = open_view(), open_view()
        for job in self._publishers:
            self._thread(job.who, partial(_publish, job, publishing))
        for job in self._workers:
            self._thread(job.who, partial(_work, job, working))
        self._thread("keeper", self._keep)

    def start_processes(self, address: Address, skews: Sequence[float]) -> None:
        """Start each in a process of its own; their wall clocks are in turn so many seconds off, and are stepped."""
        for number, job in enumerate((*self._publishers, *self._workers)):
            work = _publish if job in self._publishers else _work
            process = SPAWN.Process(
                target=_in_process, args=(work, job, address, skews[number % len(skews)]), daemon=True
            )
            process.start()
            self._processes.append(process)
        self._thread("keeper", self._keep)

    def wait_done(self, more: int, timeout: float = 60) -> None:
        """Wait until so many more messages are acknowledged than now."""
        self._wait(1, more, "acknowledgements", timeout)

    def wait_published(self, more: int, timeout: float = 60) -> None:
        """Wait until so many more messages are published than now: the publishers' transport did something as well."""
        self._wait(0, more, "published messages", timeout)

    def _wait(self, which: int, more: int, what: str, timeout: float) -> None:
        before = self.counts()[which]
        wait_until(
            lambda: f"{more} more {what} (published, done: {self.counts()}; errors {self.errors!r:.500})",
            lambda: self.counts()[which] >= before + more or bool(self.errors),
            timeout,
        )
        assert self.errors == [], f"errors: {self.errors!r:.2000}"

    def finish(self, view: View, timeout: float = 60) -> list[Call]:
        """Let them work off what there is, end them, and check the history; returns it."""
        self.folder.set("drain")
        with Journal(self.folder.journal("driver")) as journal:
            recorder = Recorder("driver", view, journal)
            wait_until(
                lambda: f"an empty queue (published, done: {self.counts()}; errors {self.errors!r:.500})",
                lambda: self._is_empty(recorder) or bool(self.errors),
                timeout,
                every=0.1,
            )
            self._end()
            assert self.errors == []
            recorder.stats()
            recorder.listed("left", list_left)
            recorder.listed("dead", list_dead)
        self.calls = list(self.folder.read())
        verdict = check(Lives(self.calls), timeout=LONGEST_TIMEOUT)
        assert verdict.passed, [
            f"{broken.rule}: {broken.text} {list(map(str, broken.calls))}" for broken in verdict.broken
        ]
        assert self.counts()[1] > 0
        return self.calls

    def counts(self) -> tuple[int, int]:
        """How many messages were confirmed, and acknowledged, so far."""
        with self._counting:
            for counter in self._counters:
                counter.read()
            counts = [counter.counts for counter in self._counters]
            self.errors += [AssertionError(one.error) for one in counts if one.error and not self.errors]
            return sum(one.published for one in counts), sum(one.done for one in counts)

    def _is_empty(self, recorder: Recorder) -> bool:
        if any(thread.is_alive() and thread.name.startswith("publisher") for thread in self._threads):
            return False
        if any(process.is_alive() for process in self._processes[: len(self._publishers)]):
            return False
        stats = recorder.stats()
        if stats is not None and stats.dead:
            recorder.redrive()
        return stats is not None and not stats.messages and not stats.dead

    def _end(self) -> None:
        self.folder.set("stop")
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), f"{thread.name} has not ended"
        for process in self._processes:
            process.join(30)
            process.kill()
            assert process.exitcode == 0 or self.errors, f"a process of the load ended with {process.exitcode}"

    def _thread(self, name: str, step: Callable[[], None]) -> None:
        def run() -> None:
            try:
                step()
            except BaseException as error:
                self.errors.append(error)

        thread = threading.Thread(target=run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _keep(self) -> None:
        """Hold publishers back while much waits to be worked."""
        while not self.folder.is_set("stop"):
            published, done = self.counts()
            if published - done > BACKLOG:
                self.folder.set("slow")
            else:
                self.folder.clear("slow")
            time.sleep(0.05)

    # -- what it saw, when it is over --------------------------------------------------------------------------

    def told(self, what: str) -> list[Call]:
        """The calls of publishers and workers that were told this."""
        return [call for call in self.calls if call.told == what and call.who != "driver"]

    def unsure(self) -> list[Call]:
        """Those whose callers had to be told that it cannot be told, or that nothing was applied."""
        return self.told(UNKNOWN) + self.told(REFUSED)

    def longest(self) -> float:
        """How long the longest call took (seconds)."""
        return max(lasted(call) for call in self.calls if call.who != "driver")

    def pause(self, since: int) -> float:
        """From a moment (ns) to the end of the last call that was under way then and was answered (seconds)."""
        under_way = [
            call.ended
            for call in self.told(DONE) + self.told(LOST)
            if call.ended is not None and call.begun <= since < call.ended
        ]
        return max(((ended - since) / SECOND for ended in under_way), default=0.0)


def lasted(call: Call) -> float:
    """How long a call took (seconds)."""
    return 0.0 if call.ended is None else (call.ended - call.begun) / SECOND


def _publish(job: Job, view: View) -> None:
    folder = Folder(job.folder)
    with Journal(folder.journal(job.who)) as journal:
        Publisher(job, Recorder(job.who, view, journal), folder).run()


def _work(job: Job, view: View) -> None:
    folder = Folder(job.folder)
    with Journal(folder.journal(job.who)) as journal:
        Worker(job, Recorder(job.who, view, journal), folder).run()


def _in_process(work: Callable[[Job, View], None], job: Job, address: Address, skew: float) -> None:
    """The whole life of a process: its wall clock is so far off, and steps to and fro every 0.2 s."""
    Skew.install(skew)
    view = open_address(address)
    folder = Folder(job.folder)

    def step() -> None:
        while not folder.is_set("stop"):
            Skew.seconds = -Skew.seconds
            time.sleep(0.2)

    threading.Thread(target=step, daemon=True).start()
    work(job, view)
    view.close()
