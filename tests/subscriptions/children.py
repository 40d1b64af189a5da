"""Workers in processes of their own, which are signalled and killed; they write down what they do in a folder."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rqfast import Context, Worker
from tests.contract.processes import SPAWN
from tests.subscriptions.place import Place

# What a child may take to start, and to do a step; generous, since all that matters is that it comes to its end.
SECONDS = 40.0
# How long handlers work that are not to come to their end.
LONG = 120.0


class Child:
    """A process that runs `worker.run()` with one of the `HANDLERS`, on every group."""

    def __init__(
        self, place: Place, folder: Path, handler: str, *, subscription: dict[str, Any], **options: Any
    ) -> None:
        self.folder = folder
        arguments = (place.url, place.queue, str(folder), handler, subscription, options)
        self.process = SPAWN.Process(target=serve, args=arguments, daemon=True)
        self.process.start()

    def wait_for(self, line: str, count: int = 1) -> None:
        """Wait until it has written the line so often."""
        end = time.monotonic() + SECONDS
        while lines(self.folder).count(line) < count:
            assert time.monotonic() < end, f"waited {SECONDS:g} s for {line!r}, there is {lines(self.folder)}"
            assert self.process.is_alive(), f"the child ended ({self.process.exitcode}) before {line!r}"
            time.sleep(0.01)

    def signal(self, number: int) -> None:
        """Send a signal."""
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def ended(self, seconds: float = SECONDS) -> int | None:
        """Wait for its end; its exit code."""
        self.process.join(seconds)
        alive = self.process.is_alive()
        self.close()
        assert not alive, f"waited {seconds:g} s for the child to end, it wrote {lines(self.folder)}"
        return self.process.exitcode

    def counts(self) -> dict[str, int]:
        """What `run()` returned there."""
        found: dict[str, int] = json.loads((self.folder / "counts").read_text())
        return found

    def close(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.join(15)


def lines(folder: Path) -> list[str]:
    """What children have written down there."""
    path = folder / "lines"
    return path.read_text().splitlines() if path.exists() else []


def note(folder: Path, line: str) -> None:
    """Write a line, whole, whoever else does."""
    file = os.open(folder / "lines", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(file, f"{line}\n".encode())
    os.close(file)


class Lines(logging.Handler):
    """Writes down that the worker has heard of a signal."""

    def __init__(self, folder: Path) -> None:
        super().__init__(logging.INFO)
        self.folder = folder

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().endswith(": stops"):
            note(self.folder, "stops")


def serve(
    url: str, queue: str, folder: str, handler: str, subscription: dict[str, Any], options: dict[str, Any]
) -> None:
    """Run in the child."""
    path = Path(folder)
    logger = logging.getLogger("rqfast.worker")
    logger.setLevel(logging.INFO)
    logger.addHandler(Lines(path))
    worker = Worker(url, queue=queue, max_poll=0.1, **options)
    worker.subscriber(name="child", **subscription)(HANDLERS[handler](path))
    worker.on_startup(lambda database: note(path, "started"))
    counts = worker.run()
    (path / "counts").write_text(json.dumps(asdict(counts)))


def ends_in_time(folder: Path) -> Callable[..., Any]:
    """Ends after it was told to stop, and before the grace does."""

    async def handle(payload: Any, ctx: Context) -> None:
        note(folder, f"begins {payload} {ctx.attempt}")
        while "stops" not in lines(folder):  # noqa: ASYNC110 - it is a file
            await asyncio.sleep(0.01)
        note(folder, f"ends {payload}")

    return handle


def is_cancelled(folder: Path) -> Callable[..., Any]:
    async def handle(payload: Any, ctx: Context) -> None:
        note(folder, f"begins {payload} {ctx.attempt}")
        await asyncio.sleep(LONG)

    return handle


def ignores_cancellation(folder: Path) -> Callable[..., Any]:
    async def handle(payload: Any, ctx: Context) -> None:
        note(folder, f"begins {payload} {ctx.attempt}")
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            try:
                await asyncio.sleep(0.1)
            except asyncio.CancelledError:
                note(folder, "cancelled")

    return handle


def plain_sleeps(folder: Path) -> Callable[..., Any]:
    def handle(payload: Any, ctx: Context) -> None:
        note(folder, f"begins {payload} {ctx.attempt}")
        time.sleep(LONG)

    return handle


def exits(folder: Path) -> Callable[..., Any]:
    """A crash at each poison, from which nothing can be caught."""

    def handle(payload: Any, ctx: Context) -> None:
        note(folder, f"begins {payload} {ctx.attempt}")
        if payload == "poison":
            os._exit(9)

    return handle


def done(folder: Path) -> Callable[..., Any]:
    async def handle(payload: Any, ctx: Context) -> None:
        note(folder, f"begins {payload} {ctx.attempt}")

    return handle


HANDLERS: dict[str, Callable[[Path], Callable[..., Any]]] = {
    one.__name__: one for one in (ends_in_time, is_cancelled, ignores_cancellation, plain_sleeps, exits, done)
}
