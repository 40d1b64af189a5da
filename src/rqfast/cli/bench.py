"""`rqfast bench`: what a database does here and now.  How it is measured is in measure.py."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from ..errors import RqfastError
from ..transport.schema import drop_queue
from .console import Column, json_line, make_console, say, show_rows, tell, without_password
from .measure import PHASES, Figure, Measuring, queue_name
from .new_file import NewFile
from .options import Debug, Json, Url
from .progress import Bar
from .queue import place

HEADS = (
    Column("", fold=True),
    Column("a second", right=True),
    Column("median", right=True),
    Column("99 %", right=True),
)


def bench(
    url: Url = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long each of the figures is measured.")] = 3.0,
    size: Annotated[int, typer.Option(min=1, max=1_000_000, help="Bytes of an event.")] = 100,
    groups: Annotated[int, typer.Option(min=1, help="Groups of the messages.")] = 1000,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure publishing and claiming on a database, from here, in a queue of its own that is dropped at the end.

    A quick figure, of one client on this machine: the rates of several add up until the server is busy. It writes as
    fast as it can: other users of the database will feel it. A file that is not there is made, and gone at the end.
    """
    where, is_rqlite = place(url)
    name = queue_name()
    file = NewFile(where, is_rqlite)
    measuring = Measuring(where, name, seconds, size, groups)
    console = make_console()
    if not json:
        say(
            console,
            f"rqfast bench: {len(PHASES)} figures, {seconds:g} s each, in a new queue of {without_password(where)}",
        )
    found: list[Figure] = []
    with Bar("Measuring", len(PHASES), rate=False) as bar:
        try:
            asyncio.run(_measure(measuring, bar, found))
        except KeyboardInterrupt:
            tell("rqfast: interrupted; its queue is dropped")
            raise
        finally:
            _drop(where, is_rqlite, name)
            file.remove()
    for figure in found if json else ():
        json_line(figure.fields())
    if not json:
        show_rows(console, HEADS, [figure.row() for figure in found])


async def _measure(measuring: Measuring, bar: Bar, found: list[Figure]) -> None:
    async for what, figure in measuring.run():
        if figure is not None:
            found.append(figure)
        bar.update(sum(one.count for one in found), len(found), what)


def _drop(where: str, is_rqlite: bool, name: str) -> None:
    """Drop the queue; where that fails, say which one is left."""
    try:
        asyncio.run(drop_queue(where, is_rqlite, name))
    except RqfastError as error:
        tell(f"rqfast: the queue {name} is left, and may be dropped: {error}")
