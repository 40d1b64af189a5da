"""What the processes of a soak share: what they are told, how they begin and end."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..api import Transport
from ..connect import RQLITE_SCHEMES, connect
from ..demo.journal import Journal
from ..errors import OutcomeUnknown, RqfastError, Unavailable
from .breaks import as_broken
from .journal import Folder
from .recorder import Recorder
from .wall import WrongClock

log: logging.Logger = logging.getLogger("rqfast.soak")

RETRY_SECONDS = 0.2


class SoakError(RqfastError):
    """The soak cannot be run, or was not finished: the queue's name, a process that is gone, no answer."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a process is told when it starts.

    Attributes:
        who: its name.
        url: of the database.
        queue: the queue's name.
        folder: for what it writes, and for the parent's signs.
        seed: of all that it does by chance.
        groups: of a publisher: its own.
        visibility: how long most leases last (seconds).
        timeout: of a call (seconds).
        batch: messages of the largest publish.
        concurrency: of a service: messages in work at once.
        wrong_clock: whether its wall clock is wrong.
    """

    who: str
    url: str = field(repr=False)
    queue: str
    folder: Path
    seed: int
    groups: tuple[str, ...] = ()
    visibility: float = 5.0
    timeout: float = 10.0
    batch: int = 100
    concurrency: int = 1
    wrong_clock: bool = False


def in_process(job: Job, work: Callable[[Recorder, Folder], None], *, last_sign: str = "stop") -> None:
    """Open the queue and work; the process's whole life.

    Args:
        last_sign: the sign at which it ends.

    Raises:
        SystemExit: something went wrong; what, stands in the journal.
    """

    def live(journal: Journal, folder: Folder) -> None:
        transport = open_queue(job, folder, last_sign)
        if transport is None:
            return
        with transport:
            journal.write([{"what": "ready"}])
            work(Recorder(job.who, as_broken(transport), journal), folder)

    whole_life(job, live)


def whole_life(job: Job, live: Callable[[Journal, Folder], None]) -> None:
    """From begin to end of a process: what it logs is in a file of its own, and why it cannot go on in its journal.

    Raises:
        SystemExit: it could not go on.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder = Folder(job.folder)
    if job.wrong_clock:
        WrongClock(job.seed, job.who, time.time).install()
    logger = logging.getLogger("rqfast")
    logger.addHandler(logging.FileHandler(folder.log(job.who), encoding="utf-8", delay=True))
    logger.propagate = False
    with Journal(folder.journal(job.who)) as journal:
        try:
            live(journal, folder)
        except Exception as error:
            log.exception("%s cannot go on", job.who)
            journal.write([{"what": "failed", "error": f"{type(error).__name__}: {error}"}])
            sys.exit(1)


def open_queue(job: Job, folder: Folder, last_sign: str) -> Transport[Any] | None:
    """Open the queue, however long the cluster is away; None: the sign to end came before."""
    while not folder.is_set(last_sign):
        check_parent()
        try:
            return connect(job.url, queue=job.queue, create=False, **options_of(job.url, job.timeout))
        except (Unavailable, OutcomeUnknown):
            time.sleep(RETRY_SECONDS)
    return None


def options_of(url: str, timeout: float) -> dict[str, Any]:
    """The options of the transport for this engine."""
    is_rqlite = url.partition("://")[0].lower() in RQLITE_SCHEMES and "://" in url
    return {"timeout": timeout, "connect_retries": 2, "retry_delay": 0.5} if is_rqlite else {"busy_timeout": timeout}


def check_parent() -> None:
    """Raise SoakError when the process that started this one is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        raise SoakError("the process that started this one is gone")
