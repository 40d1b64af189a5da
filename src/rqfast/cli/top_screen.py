"""How `rqfast top` looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Group
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from ..model import GroupInfo, Stats
from ..verify.found import NodeState
from .console import Column, make_table, middle, one_line
from .top_feed import Seen
from .wording import MINUTE, age, brief, short

# Of so many seconds on no tenths are shown.
TENTHS = 10
BARS = " ▁▂▃▄▅▆▇█"
# What is as wide: a screen with all columns, and one with the figures but no sparkline; and how many columns are left.
WIDE, SPARKS, FIRST = 70, 62, 3
# A narrower screen has no room for a question.
NARROWEST = 20
STYLES = {"in_work": "green", "parked": "yellow", "delayed": "yellow", "paused": "magenta"}
KEYS = "p pause  r resume  d redrive  s sort  ↑↓ choose a group  q quit"
GROUP_KEYS = "p pause  r resume  d redrive  l release  ↑↓ choose  esc none  q quit"


@dataclass(slots=True)
class View:
    """What is on the screen beside the figures.

    Attributes:
        title: the queue and its database.
        order: of the groups.
        chosen: the group that keys are about; None: the queue.
        line: what is asked, or was done last.
        asks: whether that is a question.
    """

    title: str
    order: str = "oldest"
    chosen: str | None = None
    line: str = ""
    asks: bool = False


def draw(seen: Seen, view: View, width: int, height: int, now: float) -> Group:
    """The whole screen (rich.console.Group), `height` lines at most, at this time of the monotonic clock."""
    bottom = has_footer(seen, width, height, now)
    parts: list[Text | Table | Rule] = [
        _title(seen, view, width, now) if bottom or not view.line else _line(view, width)
    ]
    if trouble := _trouble(seen, now):
        parts.append(Text(middle(trouble, width), style="bold red"))
    if seen.stats is None:
        parts.append(Text("" if seen.trouble else "looking …", style="dim"))
    else:
        parts.append(_figures(seen, seen.stats, width))
    if seen.nodes:
        parts.append(_nodes(seen.nodes, width, seen.knows_nodes(now)))
    parts.append(Rule(f"groups by {'age' if view.order == 'oldest' else view.order}", style="dim", align="left"))
    parts.append(_groups(seen.groups, view, max(1, height - _used(seen, width, now)), width))
    parts.append(_last_line(view, width))
    return Group(*parts)


def has_footer(seen: Seen, width: int, height: int, now: float) -> bool:
    """Whether the last lines of the screen, with the keys and what is asked, can be seen whole."""
    return width >= NARROWEST and height > _used(seen, width, now)


def _used(seen: Seen, width: int, now: float) -> int:
    """Lines of all but the rows of groups."""
    nodes = len(seen.nodes)
    return 12 + 2 * (width <= SPARKS) + bool(_trouble(seen, now)) + nodes + bool(nodes)


def _title(seen: Seen, view: View, width: int, now: float) -> Text:
    every = f"every {_seconds(seen.every)}"
    old = f"as of {_seconds(now - seen.at)} ago, " if seen.is_old(now) else ""
    long = len(old) + len(every)
    title = middle(one_line(view.title), max(10, width - long - 2))
    blanks = " " * max(1, width - cell_len(title) - long)
    return Text.assemble((title, "bold"), blanks, (old, "bold yellow"), (every, "dim"))


def _seconds(seconds: float) -> str:
    """Short, and exact where that is short (str)."""
    if seconds >= MINUTE:
        return age(seconds)
    return f"{seconds:.0f} s" if seconds >= TENTHS else f"{round(seconds, 1):g} s"


def _trouble(seen: Seen, now: float) -> str:
    """What keeps the figures, or the nodes, from being seen (str)."""
    if seen.trouble:
        since = f" for {age(now - seen.at)}" if seen.stats is not None else ""
        return f"no answer{since}: {one_line(seen.trouble)}"
    return f"nodes: {one_line(seen.of_nodes)}" if seen.of_nodes else ""


def _figures(seen: Seen, stats: Stats, width: int) -> Table:
    """What stands in the queue, and beside it, or below where there is no room, what moves."""
    states = (
        ("messages", stats.messages, f"in {stats.groups:,} groups", ""),
        ("claimable", stats.claimable, _old(stats.oldest_claimable_age), ""),
        ("in work", stats.in_work, _old(stats.oldest_in_work_age), ""),
        ("parked", stats.parked, "", ""),
        ("delayed", stats.delayed, "", ""),
        ("paused groups", stats.paused, "the queue is paused" if stats.queue_paused else "", "magenta"),
        ("dead", stats.dead, "", "bold red"),
    )
    spark = min(30, width - SPARKS)
    moves = [
        (Text(name), Text("…" if speed is None else f"{speed:,.0f}/s", style="bold cyan"),
         Text(sparkline([pair[n] for pair in seen.history], spark if spark > 0 else width // 3), style="cyan"))
        for n, (name, speed) in enumerate((("published", seen.published), ("done", seen.done)))
    ]  # fmt: skip
    rows: list[list[Text]] = []
    for name, number, note, style in states:
        own = style if number or note else ""
        rows.append([Text(name, style=own), Text(f"{number:,}", style=own or "bold"), Text(note, style=own or "dim")])
    if spark > 0:
        rows = [[*row, *(moves[n] if n < len(moves) else ())] for n, row in enumerate(rows)]
    else:
        rows += [list(move) for move in moves]
    table = Table.grid(padding=(0, 2, 0, 0))
    for n in range(max(map(len, rows))):
        table.add_column(justify="right" if n % 3 == 1 else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _old(seconds: float | None) -> str:
    return "" if seconds is None else f"oldest {age(seconds)}"


def sparkline(values: Sequence[float], width: int) -> str:
    """The last values as a row of bars (str)."""
    last = list(values)[-width:]
    most = max(last, default=0)
    if not most:
        return ""
    return "".join(BARS[round(value / most * (len(BARS) - 1))] for value in last)


def _nodes(nodes: Sequence[NodeState], width: int, known: bool) -> Table:
    columns = (Column("node"), Column("role"), Column("index", right=True), Column("address", cut=True))
    rows: list[list[Text]] = []
    for node in nodes:
        role, style = ("leader", "bold green") if node.leads else ("follower", "")
        if not known:
            role, style = "unknown", "yellow"
        elif node.error:
            role, style = "down", "bold red"
        applied = "" if node.applied < 0 or not known else str(node.applied)
        told = (node.error if known else "") or node.address or ""
        rows.append([Text(one_line(node.node)), Text(role, style=style), Text(applied), Text(one_line(told))])
    return make_table(columns, rows, width)


def _groups(groups: Sequence[GroupInfo], view: View, most: int, width: int) -> Table | Text:
    if not groups:
        return Text("none", style="dim")
    columns = (
        Column("  group", middle=True), Column("state"), Column("depth", right=True),
        Column("age", right=True), Column("attempts", right=True), Column("held back (UTC)", middle=True),
    )  # fmt: skip
    at = next((n for n, group in enumerate(groups) if group.group_id == view.chosen), 0)
    start = max(0, min(at - most // 2, len(groups) - most))
    rows = []
    for group in groups[start : start + most]:
        chosen = group.group_id == view.chosen
        old = "" if group.oldest_age is None else age(group.oldest_age)
        cells = (
            f"{'>' if chosen else ' '} {one_line(group.group_id)}", group.state, f"{group.depth:,}", old,
            str(group.head_attempts), one_line(_held(group)),
        )  # fmt: skip
        style = "reverse" if chosen else STYLES.get(group.state, "")
        rows.append([Text(cell, style=style if chosen or n == 1 else "") for n, cell in enumerate(cells)])
    shown = len(columns) if width >= WIDE else FIRST
    return make_table(columns[:shown], [row[:shown] for row in rows], width)


def _held(group: GroupInfo) -> str:
    """What holds it back, short."""
    if group.state == "paused":
        return "until resumed"
    until = brief(group.until)
    return f"until {until} {group.worker_id or ''}".rstrip() if until else ""


def _last_line(view: View, width: int) -> Text:
    keys = Text(short(KEYS if view.chosen is None else GROUP_KEYS, width), style="dim")
    if not view.line and view.chosen is not None:
        return Text.assemble(middle(f"group {one_line(view.chosen)}", width), "\n", keys)
    if not view.line:
        return keys
    return Text.assemble(_line(view, width), "\n", keys)


def _line(view: View, width: int) -> Text:
    """Cut in the middle: a question has its y/n at the end, and a long name stands before that."""
    return Text(middle(one_line(view.line), width), style="bold yellow" if view.asks else "")
