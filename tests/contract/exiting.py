"""A program that ends while calls are pending: it returns, is interrupted, or is told to end by a signal.

Run as `python exiting.py URL OPTIONS COLOUR WAY`; writes a line for each thing that it was told.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
from typing import Any

import rqfast

TOLD_TO_END = 3  # the exit status after SIGTERM
TOP = 4  # no message has this priority


def tell(*what: object) -> None:
    """One write: threads that run on while the interpreter ends may not touch its files."""
    os.write(1, (json.dumps(what) + "\n").encode())


def stop(number: int, _frame: object) -> None:
    sys.exit(TOLD_TO_END)


def publishes(view: Any, name: str) -> None:
    with contextlib.suppress(rqfast.RqfastError):
        for n in range(1_000_000):
            tell("told", name, n, view.publish(name, n))


def takes(view: Any) -> None:
    with contextlib.suppress(rqfast.RqfastError):
        while True:
            view.nack(view.claim("takes", 600, wait=None))


def waits(view: Any) -> None:
    with contextlib.suppress(rqfast.RqfastError):
        tell("claimed", view.claim("waits", 600, TOP, wait=None).seq)


def blocking(url: str, options: dict[str, Any], way: str) -> None:
    view = rqfast.connect(url, **options)
    for n in range(100):
        view.publish_soon("soon", n)
    jobs: list[tuple[Any, ...]] = [(publishes, view, "a"), (publishes, view, "b"), (takes, view), (waits, view)]
    for job, *given in jobs:
        threading.Thread(target=job, args=given, daemon=True).start()
    tell("told", "main", 0, view.publish("main", 0))
    tell("ready")
    if way != "exit":
        view.claim("main", 600, TOP, wait=None)


async def awaiting(url: str, options: dict[str, Any], way: str) -> None:
    transport = rqfast.connect_async(url, **options)
    if way == "exit":
        await _work(await transport, way)  # and is never closed
    elif way == "SIGTERM":
        # What a handler of signal.signal raises, asyncio may lose in any callback of its own.
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            async with transport as opened:
                await _work(opened, way)
        sys.exit(TOLD_TO_END)
    else:
        async with transport as opened:
            await _work(opened, way)


async def _work(transport: Any, way: str) -> None:
    async def publish(name: str) -> None:
        with contextlib.suppress(rqfast.RqfastError):
            for n in range(1_000_000):
                tell("told", name, n, await transport.publish(name, n))

    async def take() -> None:
        with contextlib.suppress(rqfast.RqfastError):
            while True:
                lease = await transport.claim("takes", 600, wait=None)
                await transport.nack(lease)

    tasks = [asyncio.ensure_future(work) for work in (publish("a"), publish("b"), take())]
    tell("told", "main", 0, await transport.publish("main", 0))
    pending = [transport.publish("soon", n) for n in range(100)]
    tell("ready")
    if way != "exit":
        await transport.claim("main", 600, TOP, wait=None)
    del pending, tasks


def main(url: str, options: str, colour: str, way: str) -> None:
    if way == "SIGTERM" and colour == "sync":
        signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if colour == "sync":
        blocking(url, json.loads(options), way)
    else:
        asyncio.run(awaiting(url, json.loads(options), way))


if __name__ == "__main__":
    main(*sys.argv[1:])
