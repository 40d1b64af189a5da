"""`rqfast verify`: whether the queues of a database are sound, and the nodes of a cluster alike."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console

from ..errors import RqfastError
from ..verify.found import AGREE, DISAGREE, UNKNOWN, Report, TableState
from ..verify.run import verify as look
from .console import json_line, make_console, say, show_rows, tell
from .options import Debug, Json, Shown, Url, UrlFirst
from .queue import place
from .schema import OneQueue

WORDS = {AGREE: "agree", DISAGREE: "disagree", UNKNOWN: "unknown"}
ADVICE = (
    "Which node is right only you can tell, mostly the majority. Stop one that is wrong, move its data folder away and "
    "let it join again: it takes all from the leader."
)


def verify(
    database: UrlFirst = None,
    url: Url = None,
    queue: OneQueue = None,
    repair: Annotated[bool, typer.Option("--repair", help="Make anew what is derived, where it is wrong.")] = False,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds for a leader to answer, and the nodes to come to one index.")
    ] = 10.0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Check a database's queues, and that all nodes of a cluster hold the same."""
    try:
        where, is_rqlite = place(database or url)
        report = asyncio.run(look(where, is_rqlite, queue=queue, repair=repair, wait=wait))
    except (RqfastError, OSError) as error:
        if Shown.debug:
            raise
        tell(f"rqfast: {str(error) or type(error).__name__}")
        raise typer.Exit(UNKNOWN) from None
    if json:
        json_line({"result": WORDS[report.status], **asdict(report)})
    else:
        show(make_console(), report)
    raise typer.Exit(report.status)


def show(console: Console, report: Report) -> None:
    """Print it for people."""
    if report.nodes:
        rows = [
            [
                state.node,
                state.address or "",
                "" if state.error else "leader" if state.leads else "follower",
                "" if state.applied < 0 else str(state.applied),
                state.error or "answers",
            ]
            for state in report.nodes
        ]
        show_rows(console, ("node", "address", "role", "index", "state"), rows)
        say(console, "")
    if report.tables:
        heads = ("queue", "table", "rows", "checksum", "nodes")
        show_rows(console, heads, [row for table in report.tables for row in _table(table)])
        say(console, "")
    for done in report.mended:
        say(console, f"Mended: {done}.")
    for found in report.findings:
        mends = " (--repair mends it)" if found.mendable else ""
        say(console, f"Wrong: {_called(found.queue) + ': ' if found.check != 'integrity' else ''}{found.text}{mends}")
    for table in report.tables:
        if table.difference:
            of = "" if table.queue is None else f"{_called(table.queue)}: "
            say(console, f"Wrong: {of}the nodes do not agree on {table.table}: {table.difference}")
    if any(table.difference for table in report.tables):
        say(console, ADVICE)
    for untold in report.untold:
        say(console, f"Could not be told: {untold}")
    say(console, conclusion(report))


def conclusion(report: Report) -> str:
    """The last line: what it comes to."""
    names = ", ".join(_called(queue) for queue in report.queues) or "no queue"
    if report.status == AGREE:
        able = len([state for state in report.nodes if not state.error])
        alike = f"; {able} {'node holds' if able == 1 else 'nodes hold'} the same at index {report.index}"
        return f"All agrees: {names}, {report.checks} checks{alike if report.nodes else ''}."
    if report.status == DISAGREE:
        count = len(report.findings) + len([table for table in report.tables if table.difference])
        return f"{count} {'thing does' if count == 1 else 'things do'} not agree: {names}."
    return f"It could not be told whether all agrees: {names}."


def _called(queue: str) -> str:
    return f"queue {queue}" if queue else "default queue"


def _table(table: TableState) -> list[list[str]]:
    """One line where all nodes agree, else one for each."""
    queue = "(all)" if table.queue is None else table.queue or "(default)"
    if not table.rows:
        return [[queue, table.table, "", "", "differs" if table.difference else "not read"]]
    nodes = list(table.rows)
    shown = [(node, f"node {node}") for node in nodes] if table.difference else [(nodes[0], "alike")]
    return [[queue, table.table, f"{table.rows[node]:,}", table.sums[node][:12], text] for node, text in shown]
