"""`python -m tests.soak --nodes 3 --minutes 30 --every 20 --report build/soak`: see `program.py`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rqfast.soak.breaks import BREAKS
from tests.soak.program import Settings, run

EACH_MINUTE = {"messages": 33_400, "taken-over": 4, "kills": 4, "lost-replies": 4}
LOAD = ("--groups", "2000", "--publishers", "2", "--workers", "3", "--subscribers", "2", "--batch", "400", "--backlog",
        "8000", "--visibility", "5", "--timeout", "8", "--drain", "60")  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and run; returns the exit status (int)."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description="A soak on servers that are broken.")
    parser.add_argument("--nodes", type=int, default=3, help="rqliteds; 0: the dev server")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--every", type=float, default=20.0, help="seconds between two faults")
    parser.add_argument("--report", type=Path, help="a folder for the report")
    parser.add_argument("--break", dest="broken", default="", choices=["", *BREAKS], help="break the clients")
    parser.add_argument("--each", type=int, default=5, help="of each kind so many were to be")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("more", nargs="*", help="arguments of rqfast soak, after --")
    given = parser.parse_args(arguments)
    needs = {name: int(least * given.minutes) for name, least in EACH_MINUTE.items()}
    settings = Settings(
        given.nodes,
        given.minutes,
        given.every,
        given.report,
        given.broken,
        given.each,
        needs,
        (*LOAD, *given.more),
        given.seed,
    )
    return run(settings, _say)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
