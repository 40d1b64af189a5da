"""What is looked at from outside: memory of processes, sizes of files, rows of tables."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rqfast.sql import Statements
from tests.cluster import Cluster

TABLES = ("messages", "groups", "lane", "dedup")
MEBI = 1 << 20


def memory(pids: Iterable[int | None]) -> float:
    """What these processes hold in memory together, in MiB; 0 where the system does not tell."""
    total = 0
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        for line in status.splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1])
    return total / 1024


def files(cluster: Cluster) -> dict[str, float]:
    """The size of what the nodes keep, in MiB: the database with its log of writes, and all else (the Raft log)."""
    sizes = {"database": 0.0, "raft": 0.0}
    for node in cluster.nodes:
        for path in (node.folder / "data").rglob("*"):
            try:
                size = path.stat().st_size if path.is_file() else 0
            except OSError:  # it went while we looked
                continue
            sizes["database" if path.name.startswith("db.sqlite") else "raft"] += size / MEBI
    return sizes


def rows(cluster: Cluster) -> dict[str, int]:
    """How many rows each table of the default queue has."""
    names = Statements(None).names
    counts = ", ".join(f'(SELECT count(*) FROM "{names[table]}")' for table in TABLES)
    (found,) = cluster.query(f"SELECT {counts}", level="weak")
    return dict(zip(TABLES, found, strict=True))
