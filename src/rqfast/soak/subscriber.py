"""A process with a `Worker` that subscribes to all groups: its calls are written down like those of a bare loop."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, suppress
from typing import Any

from ..connect import connect_async
from ..demo.journal import Journal
from ..errors import OutcomeUnknown, Unavailable
from ..transport.awaitable import AwaitableTransport
from ..worker.context import Context
from ..worker.outcomes import Ack, Dead, Outcome, Retry, RetryAfter
from ..worker.worker import Worker
from .journal import Folder
from .process import RETRY_SECONDS, Job, check_parent, options_of, whole_life
from .watched import Watched

LOOK_SECONDS = 0.1
NAP = 0.02
PARKED = 0.3

FATES = {"ack": 930, "retry": 20, "park": 12, "later": 15, "raise": 12, "dead": 6, "long": 5}
"""What a handler does with a message, by chance: how often in a thousand."""


def subscribe(job: Job) -> None:
    """Serve until the parent says stop; the process's whole life.

    Raises:
        SystemExit: something went wrong; what, stands in the journal.
    """
    whole_life(job, lambda journal, folder: asyncio.run(Subscriber(job, folder).run(journal)))


class ByChanceError(Exception):
    """What a handler raises by chance."""


class Subscriber:
    """One service.

    Args:
        job: what it was told.
        folder: where its parent's signs are.
    """

    def __init__(self, job: Job, folder: Folder) -> None:
        self._job = job
        self._folder = folder
        self._dice = random.Random(f"{job.seed} {job.who}")
        self._draining = False

    async def run(self, journal: Journal) -> None:
        """Serve until told to stop."""
        async with AsyncExitStack() as stack:
            transport = await self._open()
            if transport is None:
                return
            await stack.enter_async_context(transport)
            journal.write([{"what": "ready"}])
            Watched(transport, journal)
            worker = Worker(
                transport, name=self._job.who, concurrency=self._job.concurrency, visibility=self._job.visibility
            )
            worker.subscriber()(self._handle)
            serving = asyncio.ensure_future(worker.serve())
            while not self._folder.is_set("stop") and not serving.done():
                check_parent()
                self._draining = self._folder.is_set("drain")
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(serving), LOOK_SECONDS)
            worker.stop()
            await serving

    async def _open(self) -> AwaitableTransport[Any] | None:
        job = self._job
        while not self._folder.is_set("stop"):
            check_parent()
            try:
                return await connect_async(job.url, queue=job.queue, create=False, **options_of(job.url, job.timeout))
            except (Unavailable, OutcomeUnknown):
                await asyncio.sleep(RETRY_SECONDS)
        return None

    async def _handle(self, event: dict[str, Any], ctx: Context) -> Outcome:
        if self._draining:
            return Ack()
        if self._dice.random() < 0.05:
            await asyncio.sleep(self._dice.uniform(0.0, NAP))
        [fate] = self._dice.choices(tuple(FATES), tuple(FATES.values()))
        if fate == "raise":
            raise ByChanceError(f"message {ctx.id}")
        if fate == "long":
            # Longer than a lease: it is extended meanwhile.
            await asyncio.sleep(self._job.visibility * self._dice.uniform(0.6, 1.3))
        return self._outcome(fate)

    def _outcome(self, fate: str) -> Outcome:
        delay = round(self._dice.uniform(0.01, PARKED), 3)
        found: dict[str, Outcome] = {
            "retry": Retry(),
            "park": Retry(delay),
            "later": RetryAfter(delay),
            "dead": Dead("by chance"),
        }
        return found.get(fate, Ack())
