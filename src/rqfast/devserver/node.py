"""What the server tells of itself: one node, which leads."""

from __future__ import annotations

import ipaddress
import os
import platform
import sqlite3
import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from .replies import seconds

VERSION = "10"


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Node:
    """The one node.

    Args:
        address: `host:port` where it listens.
        file: the database's file, as it is told.
    """

    version = VERSION

    def __init__(self, address: str, file: str) -> None:
        self.address = address
        self._file = file
        self._start = datetime.now(UTC)

    @staticmethod
    def is_local(request: web.Request) -> bool:
        """Whether no web page is behind the request: none that was loaded from elsewhere, and no foreign host name."""
        # Not `request.host`, which without this header asks the network for a name.
        host = request.headers.get("Host")
        if "Origin" in request.headers or host is None:
            return False
        try:
            return is_loopback(urlsplit(f"//{host}").hostname or "")
        except ValueError:
            return False

    def described(self, request: web.Request) -> dict[str, Any]:
        """The node as /nodes shows it, under the address by which this client reached it."""
        began = time.perf_counter()
        node = {"id": "1", "api_addr": self._url(request), "addr": self.address, "version": VERSION}
        took = time.perf_counter() - began
        return {
            **node,
            "voter": True,
            "reachable": True,
            "leader": True,
            "time": seconds(took),
            "time_s": f"{took * 1e6:.3f}".rstrip("0").rstrip(".") + "µs",
        }

    def status(self, index: int) -> dict[str, Any]:
        """What /status says; `index` is that of the last entry."""
        now = datetime.now(UTC)
        raft = {
            "state": "Leader", "term": 1, "voter": True, "num_peers": 0, "last_log_term": 1, "last_log_index": index,
            "commit_index": index, "applied_index": index, "fsm_pending": 0, "leader_addr": self.address,
        }  # fmt: skip
        leader = {"node_id": "1", "addr": self.address}
        return {
            "build": {"version": VERSION, "server": "rqfast dev server"},
            "http": {"bind_addr": self.address, "auth": "disabled"},
            "node": {
                "start_time": self._start.isoformat(),
                "current_time": now.isoformat(),
                "uptime": f"{(now - self._start).total_seconds():g}s",
            },
            "os": {"pid": os.getpid(), "ppid": os.getppid()},
            "runtime": {"GOOS": platform.system().lower(), "version": f"python {platform.python_version()}"},
            "store": {
                "node_id": "1",
                "addr": self.address,
                "leader": leader,
                "nodes": [{"id": "1", "addr": self.address, "suffrage": "Voter"}],
                "raft": raft,
                "fsm_index": index,
                "db_applied_index": index,
                "ready": True,
                "sqlite3": {"path": self._file, "version": sqlite3.sqlite_version},
            },
        }

    def _url(self, request: web.Request) -> str:
        return f"http://{request.headers.get('Host') or self.address}"
