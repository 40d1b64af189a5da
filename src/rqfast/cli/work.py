"""`rqfast work`: a worker of the user's own, until it is stopped."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from ..errors import ConfigError, SchemaError
from ..worker.counts import Counts
from ..worker.worker import Worker
from .console import json_line, make_console, printable, say
from .exits import Misused
from .loading import load_object
from .options import Debug, Json
from .processes import Processes
from .queue import MISSING_OR_CREATE, advice, is_missing
from .reloading import Files

log = logging.getLogger("rqfast.work")

FORMAT = "%(asctime)s %(levelname)-7s %(process)d %(name)s: %(message)s"
MOST = 256


class Level(StrEnum):
    """From which on log records are shown."""

    debug = "debug"
    info = "info"
    warning = "warning"
    error = "error"


def work(
    target: Annotated[str, typer.Argument(metavar="MODULE:WORKER", help="An rqfast.Worker, as in shop.jobs:worker.")],
    url: Annotated[
        str | None,
        typer.Option("--url", "-u", help="Database, of a worker that names none.", metavar="URL"),
    ] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", "-q", help="Queue, of a worker that names none.", metavar="NAME")
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Make the queue (and the file) if it is not there.")] = False,
    processes: Annotated[
        int, typer.Option(min=1, max=MOST, help="So many at once; one that dies is started again.")
    ] = 1,
    reload: Annotated[
        bool, typer.Option("--reload", help="For development: start again when a source changes.")
    ] = False,
    log_level: Annotated[Level, typer.Option(help="Of what is logged to stderr.")] = Level.info,
    json: Json = False,
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
    debug: Debug = False,
) -> None:
    """Run a worker: its handlers get messages until it is stopped (Ctrl-C, SIGTERM; a second time at once).

    Handlers in work may end within the worker's grace. With --processes a process that dies is started again after a
    pause, which grows while it keeps dying.
    """
    _log_to_stderr(log_level)
    if processes > 1 or reload:
        arguments = [target, *(["--url", url] if url else []), *(["--queue", queue] if queue else [])]
        arguments += [
            *(["--create"] if create else []),
            "--log-level",
            log_level.value,
            *(["--debug"] if debug else []),
        ]
        crew = Processes(arguments, processes, Files() if reload else None)
        raise typer.Exit(crew.run())
    worker = load(target)
    worker.use(url or None, queue=queue or None, create=create)
    if supervised:
        _stop_with_parent()
    try:
        counts = worker.run()
    except SchemaError as error:
        if not is_missing(error):
            raise
        text = str(error).removesuffix(", and create=False makes none")
        raise Misused(f"{text}; {advice(error, MISSING_OR_CREATE)}") from error
    if json:
        json_line(asdict(counts))
    elif supervised:
        log.info("%s", told(worker.name, counts, worker.reached))
    else:
        say(make_console(), told(worker.name, counts, worker.reached))


def load(target: str) -> Worker:
    """The worker that MODULE:WORKER means.

    Raises:
        Misused: there is none.
    """
    try:
        _, found = load_object(target, "shop.jobs:worker")
    except ConfigError as error:
        raise Misused(str(error)) from error
    if not isinstance(found, Worker):
        what = type(found).__name__
        an = "an" if what[0] in "aeiouAEIOU" else "a"
        raise Misused(f"{target} is {an} {what}; an rqfast.Worker is needed")
    return found


def told(name: str, counts: Counts, reached: bool) -> str:
    """What a worker has done, in a sentence (str).

    Args:
        reached: whether it had its database.
    """
    if not reached:
        return f"Worker {name} stopped: it never reached the database."
    done = [f"{number:,} {what.replace('_', ' ')}" for what, number in asdict(counts).items() if number]
    return f"Worker {name} stopped: {', '.join(done) or 'no message came'}."


class PlainFormatter(logging.Formatter):
    """Writes what a record holds, tracebacks too, so that no letter in it moves or colours a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's lines; control characters and the like are escapes."""
        return printable(super().format(record).expandtabs())


def _log_to_stderr(level: Level) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PlainFormatter(FORMAT))
    logging.basicConfig(level=level.value.upper(), handlers=[handler])


def _stop_with_parent() -> None:
    """Stop when the process that started this one is gone: then stdin ends."""

    file = sys.stdin.fileno()

    def wait() -> None:
        while os.read(file, 1):  # not by sys.stdin: its lock would be held when the interpreter ends
            pass
        # Not worker.stop(), which does nothing while the worker has not begun.
        signal.raise_signal(signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()
