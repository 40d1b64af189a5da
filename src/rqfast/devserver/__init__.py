"""A development server: rqlite's HTTP API over one SQLite file, in this process.

It is one node without replication, for tests and for trying things out.  docs/dev-server.md says what it does not do.
"""

from .server import DevServer

__all__ = ["DevServer"]
