"""`rqfast dev`: the development server, until it is stopped.  What it does is in rqfast.devserver."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from ..devserver import DevServer
from .console import make_console, say
from .options import Debug


def dev(
    host: Annotated[
        str, typer.Option(help="The address to listen on. There is no password: 0.0.0.0 lets everyone in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 for any that is free.")] = 4001,
    file: Annotated[
        Path | None, typer.Option(help="The SQLite file to keep messages in. By default they are gone at the end.")
    ] = None,
    clock_skew: Annotated[
        float, typer.Option(help="Seconds by which the time that SQL tells is ahead of this machine's clock.")
    ] = 0.0,
    debug: Debug = False,
) -> None:
    """Serve rqlite's HTTP API from SQLite: one node without replication, for development only."""
    console = make_console()
    # Also when a supervisor ends it: the temporary file goes, and the exit status says that all is well.
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with DevServer(file, port, host, allow_remote=True, clock_skew=clock_skew) as server:
            say(console, banner(server))
            _wait()
    except KeyboardInterrupt:
        say(console, "Stopped.")
    finally:
        signal.signal(signal.SIGTERM, before)


def banner(server: DevServer) -> str:
    """Where it listens, and what it is not (str)."""
    kept = "are gone when it ends" if server.file is None else f"are kept in {server.file}"
    lines = [
        f"rqfast dev server on {server.url}",
        "  one node without replication, for development only: use rqlite where messages matter",
        f"  messages {kept}",
    ]
    if not server.only_loopback:
        lines.append("  no password: whoever reaches this address can read and change everything")
    return "\n".join([*lines, f'Connect with rqfast.connect("{server.url}"). Ctrl-C ends it.'])


def _wait() -> None:
    never = threading.Event()
    while not never.wait(1.0):  # without an end, Windows would not see Ctrl-C
        pass


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
