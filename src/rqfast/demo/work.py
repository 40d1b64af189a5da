"""A worker of the demo: a process that claims, works, writes down what it did, and only then acknowledges."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._core import Lease
from ..api import Transport
from ..connect import connect
from ..errors import LeaseLost
from .journal import Journal, Record, Signals
from .source import DemoError

log: logging.Logger = logging.getLogger("rqfast.demo")

SIGNAL_SECONDS = 120.0
CLAIM_SECONDS = 0.1
LOOK_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is told when it starts.

    Attributes:
        name: its own.
        url: of the database.
        queue: the queue's name, None: the default one.
        run: what the demo's own messages have in their headers.
        folder: for what it writes, and for the parent's signals.
        limit: messages in one claim.
        visibility: how long a lease lasts (seconds).
        share: how many messages to take until the victim is killed; so there is work left to kill it in.
        is_victim: holds the messages that it claims when its share is done, and is killed.
    """

    name: str
    url: str = field(repr=False)
    queue: str | None
    run: str
    folder: Path
    limit: int
    visibility: float
    share: int
    is_victim: bool


def work(job: Job) -> None:
    """Work until the parent says stop; the process's whole life.

    Raises:
        SystemExit: something went wrong; what, stands in the journal.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signals = Signals(job.folder)
    with Journal(signals.journal(job.name)) as journal:
        try:
            with connect(job.url, queue=job.queue, create=False) as transport:
                journal.write([{"what": "ready"}])
                Worker(job, transport, journal, signals).run()
        except Exception as error:
            log.debug("%s cannot go on", job.name, exc_info=True)
            journal.write([{"what": "failed", "error": f"{type(error).__name__}: {error}"}])
            sys.exit(1)


class Worker:
    """The loop of one worker.

    Args:
        job: what it was told.
        transport: the queue.
        journal: where it writes down what it does.
        signals: what its parent wants.
    """

    def __init__(self, job: Job, transport: Transport[Any], journal: Journal, signals: Signals) -> None:
        self._job = job
        self._transport = transport
        self._journal = journal
        self._signals = signals
        self._begun = 0

    def run(self) -> None:
        """Claim, work and acknowledge until told to stop and nothing more comes.

        Raises:
            DemoError: the parent is gone or says nothing, or there are messages that are not the demo's.
            RqfastError: the queue's own.
        """
        self._wait_until("the sign to begin", lambda: self._signals.is_set("go"))
        done: list[Lease[Any]] = []
        while True:
            stopping = self._signals.is_set("stop")
            limit = self._limit()
            if not limit:
                self._pause(done)
                done = []
                continue
            asked = time.monotonic_ns()
            leases = self._claim(limit, done)
            if stopping and not leases:
                return
            self._begun += len(leases)
            done = self._work(leases, asked)

    def _limit(self) -> int:
        """How many messages to claim next; 0 when its share until the kill is spent."""
        job = self._job
        if job.is_victim or self._signals.is_set("on"):
            return job.limit
        return min(job.limit, job.share - self._begun)

    def _claim(self, limit: int, done: list[Lease[Any]]) -> list[Lease[Any]]:
        """Acknowledge what is done and claim the next, in one commit."""
        check_parent()
        job = self._job
        try:
            leases = self._transport.claim_many(job.name, job.visibility, limit, wait=CLAIM_SECONDS, ack=done)
        except LeaseLost:
            self._note("lost", done)
            return []
        self._note("acked", done)
        strangers = [lease for lease in leases if lease.headers.get("run") != job.run]
        if strangers:
            self._transport.nack_many(leases)
            raise DemoError(f"the queue {job.queue!r} has messages that are not of this demo; they were given back")
        return leases

    def _work(self, leases: list[Lease[Any]], asked: int) -> list[Lease[Any]]:
        """Work messages and write it down; returns those whose work was done before the lease was over."""
        leases = [lease for lease in leases if lease.remaining() > 0]
        at = time.monotonic_ns()
        self._journal.write(begin(lease, asked, at) for lease in leases)
        if leases and self._job.is_victim and self._begun > self._job.share:
            self._journal.write([{"what": "holding", "count": len(leases)}])
            self._wait_until("being killed", lambda: False)
        done, records = [], []
        for lease in leases:
            result = check_sum(lease)
            if lease.remaining() > 0:
                at = time.monotonic_ns()
                records.append({"what": "end", "seq": lease.seq, "attempts": lease.attempts, "sum": result, "at": at})
                done.append(lease)
        self._journal.write(records)
        return done

    def _pause(self, done: list[Lease[Any]]) -> None:
        """Acknowledge what is done, and wait until the victim was killed."""
        lost = self._transport.ack_many(done)
        self._note("lost", lost)
        self._note("acked", [lease for lease in done if lease not in lost])
        self._wait_until("the victim's end", lambda: self._signals.is_set("on"))

    def _note(self, what: str, leases: list[Lease[Any]]) -> None:
        if leases:
            self._journal.write([{"what": what, "seqs": [lease.seq for lease in leases]}])

    def _wait_until(self, what: str, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + SIGNAL_SECONDS
        while not is_so():
            if time.monotonic() > end:
                raise DemoError(f"waited {SIGNAL_SECONDS:g} s for {what}")
            check_parent()
            time.sleep(LOOK_SECONDS)


def begin(lease: Lease[Any], asked: int, at: int) -> Record:
    """The record with which the work on a message begins."""
    return {
        "what": "begin",
        "seq": lease.seq,
        "group": lease.group_id,
        "line": lease.headers["line"],
        "attempts": lease.attempts,
        "asked": asked,
        "at": at,
    }


def check_sum(lease: Lease[Any]) -> int:
    """The work itself: CRC-32 of the message's text."""
    return zlib.crc32(lease.raw.encode())


def check_parent() -> None:
    """Raise DemoError when the process that started this one is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        raise DemoError("the process that started this one is gone")
