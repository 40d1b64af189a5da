"""The pure-Python transport that rqfast replaces: the baseline of the benchmarks and the old side of mixed tests.

A queue on rqlite over plain HTTP, one call at a time, with the faults that it is known for; tests/reference pins both.
Nothing here is meant to be mended.
"""

from .asyncio_twin import AsyncRqliteTransport
from .event import Event
from .lease import Lease
from .sync import RqliteTransport

__all__ = ["AsyncRqliteTransport", "Event", "Lease", "RqliteTransport"]
