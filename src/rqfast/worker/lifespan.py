"""A worker inside a web application: starts and stops with it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from ..errors import RqfastError
from .worker import Worker

__all__ = ["aiohttp_web", "serving", "starlette"]

log: logging.Logger = logging.getLogger("rqfast.worker")


@asynccontextmanager
async def serving(worker: Worker) -> AsyncIterator[Worker]:
    """Serve in a task of the running loop, from here to the end of the block, for a lifespan of your own.

    Raises:
        ConfigError, SchemaError, Unavailable: the worker could not start.

    Example:
        >>> @asynccontextmanager
        ... async def lifespan(app):
        ...     async with open_pool() as pool, serving(worker):
        ...         yield
    """
    task = asyncio.ensure_future(worker.serve())
    started = asyncio.ensure_future(worker.started())
    try:
        await asyncio.wait((task, started), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
            raise RqfastError(f"worker {worker.name!r} was stopped before it had started")
        yield worker
    finally:
        started.cancel()
        await _stop(worker, task)


async def _stop(worker: Worker, task: asyncio.Task[Any]) -> None:
    if task.done():
        # It failed while the application went on, and said so in the log.
        return
    worker.stop()
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        # The application ends at once: so does the worker, which gives its messages back.
        worker.stop()
        await asyncio.wait((task,))
        raise
    if not task.cancelled() and task.exception() is not None:
        # What ends the block goes on; that the worker failed must not be overlooked.
        log.error("worker %r failed: %s", worker.name, task.exception())


def starlette(worker: Worker) -> Callable[[Any], AbstractAsyncContextManager[dict[str, Worker]]]:
    """The lifespan of a FastAPI or Starlette application: it starts when the worker has, and stops it.

    The worker is `request.state.worker`.

    Example:
        >>> app = FastAPI(lifespan=starlette(worker))
    """

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[dict[str, Worker]]:
        async with serving(worker):
            yield {"worker": worker}

    return lifespan


def aiohttp_web(worker: Worker) -> Callable[[Any], AsyncIterator[None]]:
    """The same for an `aiohttp.web.Application`.

    Example:
        >>> app.cleanup_ctx.append(aiohttp_web(worker))
    """

    async def context(app: Any) -> AsyncIterator[None]:
        async with serving(worker):
            yield

    return context
