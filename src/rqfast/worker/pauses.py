"""Subscriptions that are paused: written down in the database, and looked for by every worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import RqfastError
from ..sql.pauses import PAUSED, PAUSES_TABLE, PAUSES_THERE, pause, resume
from ..transport.awaitable import AwaitableTransport

if TYPE_CHECKING:
    from .station import Station

log: logging.Logger = logging.getLogger("rqfast.worker")

# How often a worker looks for what others have paused or resumed, in seconds.
LOOK = 1.0


class Pauses:
    """Which subscriptions of this database are paused."""

    def __init__(self, transport: AwaitableTransport[Any], loop: asyncio.AbstractEventLoop) -> None:
        self._desk = transport.desk
        self._loop = loop
        self._stations: Sequence[Station] = ()
        self._task: asyncio.Task[None] | None = None
        self._changes = 0

    async def start(self, stations: Sequence[Station]) -> None:
        """Find out, and go on looking."""
        self._stations = stations
        self._obey(await self.names())
        self._task = self._loop.create_task(self._watch(), name="rqfast: pauses")

    async def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK)
            changes = self._changes
            try:
                names = await self.names()
                if changes == self._changes:
                    # Else it may have been read before what this process has just written.
                    self._obey(names)
            except RqfastError as error:
                log.warning("it could not be read which subscriptions are paused, it is tried again: %s", error)

    def _obey(self, names: set[str]) -> None:
        for station in self._stations:
            if station.name in names:
                station.pause()
            else:
                station.resume()

    async def names(self) -> set[str]:
        """The names of those that are paused."""
        if not (await self._desk.query(PAUSES_THERE))[0][0]:
            return set()
        return {str(row[0]) for row in await self._desk.query(PAUSED)}

    async def pause(self, name: str) -> None:
        """Pause a subscription: in this process now, in others within a second."""
        await self._desk.run([[PAUSES_TABLE], pause(name)])
        self._changes += 1
        for station in self._stations:
            if station.name == name:
                station.pause()

    async def resume(self, name: str) -> None:
        """End the pause."""
        await self._desk.run([[PAUSES_TABLE], resume(name)])
        self._changes += 1
        for station in self._stations:
            if station.name == name:
                station.resume()
