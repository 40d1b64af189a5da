"""The workers, seen from the process that starts them: it kills one, stops the others, and waits for none for ever."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.context import SpawnProcess
from typing import Protocol, Self

from .journal import Attempt, Reader, Signals
from .source import DemoError
from .work import Job, work

READY_SECONDS = 60.0
SILENCE_SECONDS = 60.0
STOP_SECONDS = 20.0
LOOK_SECONDS = 0.02


class Watcher(Protocol):
    """Is told how the demo goes on; what shows it to somebody."""

    def begin_publishing(self, total: int) -> None:
        """The first of `total` messages is about to be published."""

    def published(self, count: int) -> None:
        """So many messages were handed to the queue."""

    def begin_working(self, total: int) -> None:
        """The workers are ready, `total` messages wait for them."""

    def worked(self, count: int) -> None:
        """So many messages were finished, by what the workers wrote down."""

    def killed(self, worker: str, held: int) -> None:
        """A worker was killed while it held so many messages."""


class Crew:
    """Worker processes, one for each job; entered, they run, and left, none does.

    Args:
        jobs: what each is told; one is the victim.
        signals: in the folder of the jobs.

    Attributes:
        dead: workers that ended though nobody killed or stopped them, each with its reason (list of str).
    """

    def __init__(self, jobs: Sequence[Job], signals: Signals) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._signals = signals
        self._workers = {job.name: spawn.Process(target=work, args=(job,), name=job.name, daemon=True) for job in jobs}
        self._readers = {job.name: Reader(signals.journal(job.name), job.name) for job in jobs}
        self._victim = next(job.name for job in jobs if job.is_victim)
        self._killed = False
        self._heard = time.monotonic()
        self.dead: list[str] = []

    def __enter__(self) -> Self:
        try:
            with without_interrupts():
                for worker in self._workers.values():
                    worker.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def attempts(self) -> list[Attempt]:
        """All that the workers wrote down so far (list of Attempt)."""
        return [attempt for reader in self._readers.values() for attempt in reader.attempts]

    def wait_ready(self) -> None:
        """Wait until each worker has the queue open.

        Raises:
            DemoError: one ended, or was not ready in time.
        """
        end = time.monotonic() + READY_SECONDS
        while late := [name for name, reader in self._readers.items() if not reader.ready]:
            self._look()
            if self.dead:
                raise DemoError(f"a worker did not start: {self.dead[0]}")
            if time.monotonic() > end:
                raise DemoError(f"waited {READY_SECONDS:g} s for {', '.join(late)} to open the queue")
            time.sleep(LOOK_SECONDS)

    def work(self, total: int, watcher: Watcher) -> None:
        """Let them work until `total` messages are finished, and kill the victim on the way.

        Raises:
            DemoError: none is left, or nothing was finished for a long time.
        """
        self._signals.set("go")
        self._heard = time.monotonic()
        done = 0
        while done < total or not self._killed:
            done = self._look()
            watcher.worked(done)
            held = self._readers[self._victim].holding
            if held is not None and not self._killed:
                self._kill()
                watcher.killed(self._victim, held)
            self._check_alive(done, total)
            time.sleep(LOOK_SECONDS)

    def stop(self) -> None:
        """Tell them to stop when nothing more comes; wait until they have.  Those that do not are in `dead`."""
        self._signals.set("stop")
        end = time.monotonic() + STOP_SECONDS
        for name, worker in self._workers.items():
            worker.join(max(0.0, end - time.monotonic()))
            if worker.is_alive():
                self.dead.append(f"{name} was still at work {STOP_SECONDS:g} s after it was told to stop")
        self._look()

    def _look(self) -> int:
        """Read what is new and see who ended; returns how many messages were finished by now."""
        ended = {name: worker.exitcode for name, worker in self._workers.items() if worker.exitcode is not None}
        if sum(reader.read() for reader in self._readers.values()):
            self._heard = time.monotonic()
        for name, code in ended.items():
            known = any(line.startswith(f"{name} ") for line in self.dead)
            if code and not known and not (self._killed and name == self._victim):
                reason = self._readers[name].error or "no reason is written down"
                self.dead.append(f"{name} ended by itself with exit code {code}: {reason}")
        return len(set().union(*(reader.done for reader in self._readers.values())))

    def _kill(self) -> None:
        victim = self._workers[self._victim]
        victim.kill()
        victim.join(STOP_SECONDS)
        if victim.is_alive():
            raise DemoError(f"waited {STOP_SECONDS:g} s for {self._victim} to be gone after SIGKILL")
        self._killed = True
        self._heard = time.monotonic()
        self._signals.set("on")

    def _check_alive(self, done: int, total: int) -> None:
        so_far = f"{done:,} of {total:,} messages are done"
        if not any(worker.is_alive() for worker in self._workers.values()):
            raise DemoError(f"no worker is left, and {so_far}: {'; '.join(self.dead)}")
        if not self._killed and not self._workers[self._victim].is_alive():
            raise DemoError(f"the worker that was to be killed is gone before: {'; '.join(self.dead)}")
        if time.monotonic() - self._heard > SILENCE_SECONDS:
            what = "a message to be finished" if self._killed else f"{self._victim} to hold messages"
            raise DemoError(f"waited {SILENCE_SECONDS:g} s for {what}; {so_far}")

    def _end(self) -> None:
        """End those that still run."""
        running = [worker for worker in self._workers.values() if worker.pid is not None]
        for worker in running:
            worker.kill()
        for worker in running:
            worker.join(STOP_SECONDS)
            _close(worker)


def _close(worker: SpawnProcess) -> None:
    with contextlib.suppress(ValueError):  # it still runs, in the kernel: SIGKILL is on its way
        worker.close()


@contextlib.contextmanager
def without_interrupts() -> Iterator[None]:
    """Processes started here never get Ctrl-C: the terminal sends it to them too, but their parent ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before: Callable[..., object] | int | None = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
