"""Runs an example and kills it at a step, or writes down which steps there are.

    python killing.py EXAMPLE ARGUMENTS

A step is a line of the example, or of the modules of rqfast that carry statements to the database, when it is reached
for the first time (line:2: for the second).  RQFAST_STEPS is the file to which they are written, RQFAST_KILL_AT the
step at which the process ends without further ado, as if the power had gone.
"""

from __future__ import annotations

import os
import runpy
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import rqfast

EXIT = 9
EXAMPLE = str(Path(sys.argv[1]).resolve())
ENGINE = Path(rqfast.__file__).parent / "engine"
WATCHED = {EXAMPLE: "example", str(ENGINE / "sqlite.py"): "sqlite", str(ENGINE / "rqlite.py"): "rqlite"}
KILL_AT = os.environ.get("RQFAST_KILL_AT")
STEPS = os.environ.get("RQFAST_STEPS")

seen: Counter[str] = Counter()
lock = threading.Lock()


def reached(step: str) -> None:
    """A line is about to run."""
    with lock:
        seen[step] += 1
        if f"{step}:{seen[step]}" == KILL_AT:
            os._exit(EXIT)


def trace(frame: FrameType, event: str, argument: Any) -> Any:
    """Watch the lines of a few modules only."""
    name = WATCHED.get(frame.f_code.co_filename)
    if name is None:
        return None

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            reached(f"{name}:{frame.f_lineno}")
        return line

    return line


threading.settrace(trace)
sys.settrace(trace)
sys.argv = sys.argv[1:]
runpy.run_path(EXAMPLE, run_name="__main__")
sys.settrace(None)
if STEPS:
    times = [f"{step}:{1 + (count > 1 and at % 2)}" for at, (step, count) in enumerate(seen.items())]
    Path(STEPS).write_text("\n".join(times), encoding="utf-8")
