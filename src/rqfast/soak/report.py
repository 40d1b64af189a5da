"""The page about a soak: one HTML file that needs nothing else, and beside it the same as JSON."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

import orjson

from .. import __version__
from . import timeline as drawing
from .history import RULES
from .run import Result
from .summary import kinds_of, record, summary, verdict

NAME, FIGURES = "soak.html", "soak.json"

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1080px;margin:2em auto;padding:0 1.2em;color:#222;background:#fff}
h1{font-size:1.6em;margin-bottom:.2em}h2{font-size:1.15em;margin:2em 0 .5em}p{margin:.4em 0}
table{border-collapse:collapse}td,th{padding:.22em 1.4em .22em 0;text-align:left;vertical-align:top}
tr+tr{border-top:1px solid #eee}th{font-weight:600;white-space:nowrap}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.side{display:flex;flex-wrap:wrap;gap:0 4em}.good{color:#17743a}.bad{color:#b3261e}.little{color:#8a5a00}
pre{white-space:pre-wrap;background:#f6f6f6;padding:.6em;font-size:13px}
"""


def write_report(result: Result, short: Sequence[str], folder: Path) -> Path:
    """Write the page and the figures into a folder; returns the page's path (Path).

    Args:
        short: what it was to show and has not.

    Raises:
        OSError: they cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    path.write_text(page(result, short), encoding="utf-8")
    (folder / FIGURES).write_bytes(orjson.dumps(record(result, short), option=orjson.OPT_INDENT_2))
    return path


def page(result: Result, short: Sequence[str]) -> str:
    """The page (str)."""
    plan = result.plan
    what = (
        f"{plan.publishers} publishers, {plan.workers} workers, {plan.subscribers} subscribers, "
        f"{plan.groups:,} groups, {plan.minutes:g} minutes; rqfast {__version__}, "
        f"Python {platform.python_version()}, {platform.system()}; seed {plan.seed}"
    )
    rules = _table((rule, _kept(result, rule)) for rule in RULES)
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>rqfast soak: {escape(verdict(result, short))}</title>",
        f"<style>{STYLE}{drawing.STYLE}</style><h1>rqfast soak: {_coloured(result, short)}</h1><p>{escape(what)}",
        _broken(result),
        _little(short),
        "<h2>What happened when</h2>",
        drawing.timeline(result),
        "<h2>What was seen</h2>",
        _table((name, escape(text)) for name, text in summary(result).items() if name != "faults"),
        f"<div class=side><section><h2>The rules</h2>{rules}</section>{_faults(result)}{_pauses(result)}</div>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _table(rows: Iterable[tuple[str, str]]) -> str:
    return f"<table>{''.join(f'<tr><th>{escape(name)}<td>{text}' for name, text in rows)}</table>"


def _figures(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is a name."""
    first, *others = heads
    lines = [f"<tr><th>{escape(first)}{''.join(f'<th class=n>{escape(head)}' for head in others)}"]
    for name, *figures in rows:
        lines.append(f"<tr><td>{escape(name)}{''.join(f'<td class=n>{escape(figure)}' for figure in figures)}")
    return f"<table>{''.join(lines)}</table>"


def _faults(result: Result) -> str:
    if not result.faults:
        return ""
    rows = [
        (seen.kind, f"{seen.times:,}", f"{seen.on_leader:,}" if seen.on_leader else "") for seen in kinds_of(result)
    ]
    return f"<section><h2>Faults</h2>{_figures(('', 'times', 'on the leader'), rows)}</section>"


def _pauses(result: Result) -> str:
    if not result.pauses:
        return ""
    rows = [
        (
            f"{result.figures.since(pause.fault.at):,.0f} s: {pause.fault.kind}",
            f"{pause.fault.election or 0.0:.2f} s",
            f"{pause.seconds:.2f} s",
            pause.name,
        )
        for pause in sorted(result.pauses, key=lambda pause: pause.fault.at)
    ]
    heads = ("leader lost at", "none led for", "a call stood still for", "")
    return f"<section><h2>Pauses</h2>{_figures(heads, rows)}</section>"


def _kept(result: Result, rule: str) -> str:
    count = result.verdict.counts.get(rule, 0)
    return f"<b class=bad>broken {count:,} times</b>" if count else "<b class=good>kept</b>"


def _broken(result: Result) -> str:
    lines = [f"process: {reason}" for reason in result.dead]
    for broken in result.verdict.broken:
        lines.append(f"{broken.rule}: {broken.text}")
        lines += [f"    {call}" for call in broken.calls]
    return f"<h2>What is wrong</h2><pre>{escape(chr(10).join(lines))}</pre>" if lines else ""


def _little(short: Sequence[str]) -> str:
    return f"<h2>Too little was shown</h2><ul>{''.join(f'<li>{escape(line)}' for line in short)}</ul>" if short else ""


def _coloured(result: Result, short: Sequence[str]) -> str:
    colour = "bad" if not result.passed else "little" if short else "good"
    return f"<span class={colour}>{escape(verdict(result, short))}</span>"
