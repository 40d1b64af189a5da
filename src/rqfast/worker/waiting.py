"""What a worker says while it waits for its database at the start."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from ..transport.awaitable import AwaitableTransport, Opening

log: logging.Logger = logging.getLogger("rqfast.worker")

# How long it waits in silence, in seconds.
SILENCE = 2.0


async def tell_waiting(worker: str, opening: Opening[AwaitableTransport[Any]]) -> None:
    """Say once, after a while, what a worker of this name waits for; to be cancelled when it has it."""
    await asyncio.sleep(SILENCE)
    transport = opening.begun
    if transport is not None:
        log.warning("worker %r: waiting for %s", worker, transport._awaited)
