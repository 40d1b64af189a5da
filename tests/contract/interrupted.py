"""What runs in a process whose main thread is interrupted (Ctrl-C) again and again, while others work beside it."""

from __future__ import annotations

import faulthandler
import random
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any

import rqfast
from tests.contract.views import Address, View, open_address

HAS_TIMER = hasattr(signal, "setitimer")
INTERRUPTED = "interrupted"
HUNG_SECONDS = 40.0
STREAM = 7  # messages of one publish_many
MAIN = 4  # the priority of what the main thread claims: what it leaves leased holds up nobody else's groups


class Interrupts:
    """The timer's signal is a Ctrl-C while a call is made, and nothing else: it may come late, by another thread."""

    def __init__(self) -> None:
        self._armed = False
        signal.signal(signal.SIGALRM, self._interrupt)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._armed:
            raise KeyboardInterrupt

    def of(self, call: Callable[[], Any], within: float) -> Any:
        """What a call gives, or INTERRUPTED: a signal comes at any moment in these seconds, before or after its end."""
        try:
            try:
                self._armed = True
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, within))
                result = call()
            finally:
                self._disarm()
        except KeyboardInterrupt:
            self._disarm()  # a late one came before the timer's
            return INTERRUPTED
        return result

    def _disarm(self) -> None:
        self._armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)


@dataclass
class Report:
    """What the threads of such a process were told."""

    published: dict[tuple[str, int], int] = field(default_factory=dict)  # (group, event) -> the seq that was told
    claimed: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))  # group -> event, seq
    acked: list[int] = field(default_factory=list)
    perhaps_acked: list[int] = field(default_factory=list)
    streams: int = 0
    whole_streams: list[int] = field(default_factory=list)
    interrupts: int = 0
    errors: list[str] = field(default_factory=list)


class Threads:
    """Three threads that publish, claim and acknowledge, undisturbed."""

    def __init__(self, view: View, report: Report) -> None:
        self._view, self._report = view, report
        self._over = threading.Event()
        steps = (self._publish, self._work, self._both)
        self._threads = [threading.Thread(target=self._run, args=(step,), daemon=True) for step in steps]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(HUNG_SECONDS)

    def _run(self, step: Callable[[int], None]) -> None:
        n = 0
        try:
            while not self._over.is_set():
                step(n)
                n += 1
        except BaseException as error:
            self._report.errors.append(repr(error))

    def _publish(self, n: int) -> None:
        event = ("p", n)
        self._report.published[event] = self._view.publish(*event)

    def _work(self, n: int) -> None:
        lease = self._view.claim("worker", 600)
        if lease is not None:
            self._report.claimed[lease.group_id].append((lease.event, lease.seq))
            self._view.ack(lease)
            self._report.acked.append(lease.seq)

    def _both(self, n: int) -> None:
        event = ("b", n)
        self._report.published[event] = self._view.publish(*event)
        self._work(n)


class MainThread:
    """Publishes, claims, acknowledges and streams, and is interrupted in all of it."""

    def __init__(self, view: View, report: Report, within: float) -> None:
        self._view, self._report, self._within = view, report, within
        self._interrupts = Interrupts()
        self._n = 0

    def step(self) -> None:
        self._n += 1
        (self._publish, self._work, self._publish, self._stream)[self._n % 4]()

    def _try(self, call: Callable[[], Any]) -> Any:
        result = self._interrupts.of(call, self._within)
        self._report.interrupts += result is INTERRUPTED
        return result

    def _publish(self) -> None:
        event = (f"m{self._n % 60}", self._n)
        seq = self._try(lambda: self._view.publish(*event, MAIN))
        if seq is not INTERRUPTED:
            self._report.published[event] = seq

    def _work(self) -> None:
        lease = self._try(lambda: self._view.claim("main", 600, MAIN))
        if lease is None or lease is INTERRUPTED:
            return
        self._report.claimed[lease.group_id].append((lease.event, lease.seq))
        if self._try(lambda: self._view.ack(lease)) is INTERRUPTED:
            self._report.perhaps_acked.append(lease.seq)
        else:
            self._report.acked.append(lease.seq)

    def _stream(self) -> None:
        number, self._report.streams = self._report.streams, self._report.streams + 1
        seqs = self._try(lambda: self._view.publish_many((f"s{number}", n) for n in range(STREAM)))
        if seqs is not INTERRUPTED:
            self._report.whole_streams.append(number)


def run_interrupted(connection: Connection, address: Address, seconds: float, within: float) -> None:
    """Interrupt the main thread for so many seconds, then send the report."""
    faulthandler.dump_traceback_later(HUNG_SECONDS, exit=True)
    report = Report()
    view = open_address(address, max_batch=3)
    threads = Threads(view, report)
    main = MainThread(view, report, within)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not report.errors:
        try:
            main.step()
        except rqfast.RqfastError as error:
            report.errors.append(repr(error))
    threads.stop()
    # It works as before.
    seq = view.publish("after", 0, MAIN)
    view.close()
    report.published["after", 0] = seq
    report.claimed = dict(report.claimed)
    faulthandler.cancel_dump_traceback_later()
    connection.send(report)
