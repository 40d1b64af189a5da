"""`python -m tests.soak`: a soak on servers that are being broken, then a look whether they agree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import rqfast
from rqfast.soak.breaks import VARIABLE
from tests.soak.injector import Injector
from tests.soak.site import Site, site

BROKEN, TOO_LITTLE = 1, 2
QUEUE = "soak"
VERIFY_SECONDS = 120.0
QUIET = 5.0

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """What is to be done.

    Attributes:
        nodes: rqliteds; 0: the dev server.
        minutes: of the soak.
        every: seconds between two faults.
        report: a folder for the report, None: none is wanted.
        broken: name of a break in the clients, "" for none.
        each: so often each kind of fault was to be.
        needs: what the soak must have seen, as options of `rqfast soak`.
        arguments: more of them.
        seed: of what is done by chance.
    """

    nodes: int = 3
    minutes: float = 30.0
    every: float = 20.0
    report: Path | None = None
    broken: str = ""
    each: int = 0
    needs: dict[str, int] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    seed: int = 1


def run(settings: Settings, say: Say) -> int:
    """Run it all; the exit status of `rqfast soak`, or 1 where the nodes do not agree at the end (int).

    Raises:
        ServerError: the servers did not start.
    """
    folder = Path(tempfile.mkdtemp(prefix="rqfast-injected-"))
    status = BROKEN
    try:
        with site(settings.nodes, settings.seed) as place:
            status = _soak(settings, place, folder, say)
            if not settings.broken:
                status = status or _verify(place, say)
    finally:
        if settings.report is not None:
            settings.report.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / "faults.jsonl", settings.report)
        if status in (0, 2) or settings.broken:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            say(f"What there is to look at is in {folder}")
    return status


def _soak(settings: Settings, place: Site, folder: Path, say: Say) -> int:
    faults = folder / "faults.jsonl"
    injector = Injector(place, faults, settings.every, settings.minutes * 60 - QUIET)
    (folder / "tmp").mkdir()
    with subprocess.Popen(
        _command(settings, place, faults),
        env=_environment(folder / "tmp") | ({VARIABLE: settings.broken} if settings.broken else {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    ) as soak:
        assert soak.stdout is not None
        began = False
        for line in soak.stdout:
            say(line.rstrip("\n"))
            if line.startswith("Soaking") and not began:
                began = True
                injector.start()
            elif line.startswith("Draining"):
                threading.Thread(target=injector.stop, name="healing").start()
    injector.stop()
    for reason in injector.failed:
        say(f"A fault was not made, or not healed: {reason}")
    rare = [f"{kind} ({times})" for kind, times in injector.made.items() if times < settings.each]
    if rare and not soak.returncode:
        say(f"Too little was shown: at least {settings.each} faults of each kind were to be: {', '.join(rare)}")
        return TOO_LITTLE
    return soak.returncode


def _verify(place: Site, say: Say) -> int:
    done = subprocess.run(
        [sys.executable, "-m", "rqfast.cli", "verify", place.real_url, "--queue", QUEUE, "--wait", "60"],
        env=_environment(None),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=VERIFY_SECONDS,
    )
    say(f"rqfast verify, exit status {done.returncode}:\n{done.stdout.rstrip()}")
    return BROKEN if done.returncode else 0


def _command(settings: Settings, place: Site, faults: Path) -> Sequence[str]:
    options = ["--minutes", f"{settings.minutes:g}", "--queue", QUEUE, "--keep", "--faults", str(faults)]
    options += ["--seed", str(settings.seed), "--wrong-clocks"]
    if settings.report is not None:
        options += ["--report", str(settings.report)]
    for name, least in settings.needs.items():
        options += [f"--need-{name}", str(least)]
    return [sys.executable, "-m", "rqfast.cli", "soak", place.url, *options, *settings.arguments]


def _environment(folder: Path | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not re.match("FORCE_COLOR|RQFAST_(URL|SOAK)", name)}
    places = {} if folder is None else {"TMPDIR": str(folder), "TEMP": str(folder)}
    source = str(Path(rqfast.__file__).parent.parent)
    return kept | places | {"PYTHONPATH": source, "PYTHONUNBUFFERED": "1", "COLUMNS": "160"}
