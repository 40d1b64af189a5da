"""A process of its own: `python -m bench.memory URL QUEUE MESSAGES` tells, as JSON, how it grew while it published."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rqfast import connect

from .workload import Work

SAMPLES = 10


def resident() -> int:
    """Bytes of this process in memory; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def main(url: str, queue: str, messages: int) -> None:
    """Publish, and look ten times on the way."""
    seen: list[int] = []
    work = Work(messages, 1000)

    def rows() -> Iterator[tuple[str, Any]]:
        for n, row in enumerate(work.rows()):
            if n % (messages // SAMPLES) == 0 and n:
                gc.collect()
                seen.append(resident())
            yield row

    with connect(url, queue=queue) as transport:
        seqs = transport.publish_many(rows())
    assert len(seqs) == messages
    grown = (seen[-1] - seen[0]) / (messages / SAMPLES * (len(seen) - 1))
    json.dump({"bytes_a_message": round(grown, 2), "mib": [round(one / (1 << 20), 1) for one in seen]}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
