"""The machine of a run: which core is whose, how fast the disk is, and what all this is called in a report."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import rqfast

SERVER_CORE, CLIENT_CORE = 0, 1
DISK_SECONDS = 1.0
PACKAGES = ("aiohttp", "orjson", "httpx", "uvloop")


@cache
def cores() -> tuple[set[int], set[int]] | None:
    """The cores of servers and of clients; None where processes cannot be pinned, or there is one core only.

    First asked before this process pins itself.
    """
    if not hasattr(os, "sched_setaffinity") or not {SERVER_CORE, CLIENT_CORE} <= os.sched_getaffinity(0):
        return None
    return {SERVER_CORE}, {CLIENT_CORE}


def pin_clients() -> None:
    """This process, and all that it starts from now on, runs on the clients' core."""
    pins = cores()
    if pins is not None:
        os.sched_setaffinity(0, pins[1])


def pinning() -> str:
    """What is pinned, in words."""
    if cores() is None:
        return "NOT pinned: servers and clients share all cores"
    return f"servers on core {SERVER_CORE}, clients on core {CLIENT_CORE}"


def syncs_per_second(folder: Path | None = None, seconds: float = DISK_SECONDS) -> float:
    """How many times a second 4 KiB are appended and synced, one after another, where `folder` lies."""
    sync = getattr(os, "fdatasync", os.fsync)
    with tempfile.TemporaryFile(dir=folder) as file:
        page, count = b"\0" * 4096, 0
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            os.write(file.fileno(), page)
            sync(file.fileno())
            count += 1
        return count / (time.perf_counter() - start)


def processor() -> str:
    """The name of the processor, as far as the system tells it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def memory_gib() -> float:
    """Of the whole machine; 0 where it is not told."""
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return 0.0


def server_version(binary: str | None) -> str:
    """What the server's program says of itself."""
    if binary is None:
        return "no rqlited: rqfast's development server"
    told = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=30, check=False)
    lines = (told.stdout + told.stderr).splitlines()
    return lines[0].strip() if lines else binary


def describe(binary: str | None) -> dict[str, str]:
    """The machine and all versions, ready to be shown."""
    packages = []
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            packages.append(f"{name} {version(name)}")
    return {
        "date": time.strftime("%Y-%m-%d %H:%M %Z"),
        "processor": f"{processor()}, {os.cpu_count()} cores, {memory_gib():.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "pinning": pinning(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "rqfast": f"{rqfast.__version__} ({_commit()})",
        "packages": ", ".join(packages),
        "server": server_version(binary),
        "sqlite": sqlite3.sqlite_version,
        "command": " ".join(["pytest", *sys.argv[1:]]),
    }


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=10"]
    with suppress(OSError):
        told = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=30, check=False
        )
        if told.returncode == 0:
            return told.stdout.strip()
    return "no git"
