"""The demo from one end to the other: publish, work with a kill, check."""

from __future__ import annotations

import secrets
import string
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..connect import RQLITE_SCHEMES, connect
from ..errors import SchemaError
from .check import Verdict, check
from .crew import Crew, Watcher
from .journal import Signals
from .publish import Published, publish
from .source import DemoError, Source
from .work import Job

LIMIT = 32
VISIBILITY = 2.0
OPENING_SECONDS = 10
MIN_WORKERS, MAX_WORKERS = 2, 64


@dataclass(frozen=True, slots=True)
class Plan:
    """What the demo is to do.

    Attributes:
        source: where the messages come from.
        url: of the database.
        queue: the name of a queue that is not there yet, None: the default one.
        folder: for what the workers write down; empty.
        workers: processes, the one to be killed included; 2 to 64.
        visibility: how long a lease lasts (seconds).
    """

    source: Source
    url: str = field(repr=False)
    queue: str | None
    folder: Path
    workers: int = 4
    visibility: float = VISIBILITY


@dataclass(frozen=True, slots=True)
class Result:
    """How it went.

    Attributes:
        published: what was published.
        verdict: what the check found, workers that died by themselves included.
        victim: the worker that was killed.
        seconds: how long it all took.
    """

    published: Published
    verdict: Verdict
    victim: str
    seconds: float


def queue_name() -> str:
    """A name for a queue that nobody else has (str)."""
    return "demo_" + "".join(secrets.choice(string.ascii_lowercase) for _ in range(8))


def run(plan: Plan, watcher: Watcher) -> Result:
    """Run the demo.

    Raises:
        DemoError: it cannot be run or finished: the file, the queue is there already, the workers are gone.
        RqfastError: the queue's own.
        OSError: the file or the folder.
    """
    if not MIN_WORKERS <= plan.workers <= MAX_WORKERS:
        raise DemoError(f"{plan.workers} workers: {MIN_WORKERS} to {MAX_WORKERS}, for one is killed")
    if ":memory:" in plan.url:
        raise DemoError(":memory:, and the workers are processes of their own and cannot see this one's memory")
    began = time.monotonic()
    tag = secrets.token_hex(8)
    _refuse_queue_in_use(plan)
    with connect(plan.url, queue=plan.queue, **_patience(plan.url)) as transport:
        watcher.begin_publishing(plan.source.count)
        published = publish(transport, plan.source.rows(), tag, watcher.published)
    jobs = _jobs(plan, tag)
    signals = Signals(plan.folder)
    with Crew(jobs, signals) as crew:
        crew.wait_ready()
        watcher.begin_working(len(published.seqs))
        crew.work(len(published.seqs), watcher)
        crew.stop()
        attempts, dead = crew.attempts, crew.dead
    victim = next(job.name for job in jobs if job.is_victim)
    verdict = check(published, attempts, visibility=plan.visibility, killed=[victim])
    verdict.faults += [f"worker: {reason}" for reason in dead]
    return Result(published, verdict, victim, time.monotonic() - began)


def _jobs(plan: Plan, tag: str) -> Sequence[Job]:
    """The workers' jobs: until the kill each may take its share of a quarter of all messages."""
    share = plan.source.count // (4 * plan.workers)
    return [
        Job(
            name=f"worker {number}",
            url=plan.url,
            queue=plan.queue,
            run=tag,
            folder=plan.folder,
            limit=LIMIT,
            visibility=plan.visibility,
            share=share,
            is_victim=number == 1,
        )
        for number in range(1, plan.workers + 1)
    ]


def _refuse_queue_in_use(plan: Plan) -> None:
    """The workers take whatever is in the queue: never out of one that others use."""
    if plan.queue is None:
        return
    try:
        connect(plan.url, queue=plan.queue, create=False, **_patience(plan.url)).close()
    except SchemaError:
        return
    raise DemoError(f"the queue {plan.queue!r} is there already; the demo wants one of its own, give another name")


def _patience(url: str) -> dict[str, Any]:
    """How long to wait for a node with a leader."""
    is_rqlite = url.partition("://")[0].lower() in RQLITE_SCHEMES and "://" in url
    return {"connect_retries": OPENING_SECONDS, "retry_delay": 1.0} if is_rqlite else {}
