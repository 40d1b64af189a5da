"""The server on one core, the client on the other, where the system can do that and has two."""

from __future__ import annotations

import os
from pathlib import Path


def cores() -> tuple[int, int] | None:
    """The cores of server and client; None where nothing can be pinned."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    allowed = sorted(os.sched_getaffinity(0))
    return (allowed[0], allowed[1]) if len(allowed) > 1 else None


def pin_process(pid: int, core: int) -> None:
    """All threads and child processes that it has; those that it makes later inherit that."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {core})
        for child in (task / "children").read_text().split():
            pin_process(int(child), core)
