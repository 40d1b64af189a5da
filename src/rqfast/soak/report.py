"""The page about a soak: one HTML file that needs nothing else."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from .. import __version__
from .figures import Figures
from .history import RULES
from .run import Result
from .shown import Shown

WIDTH, HEIGHT = 960.0, 220.0
LEFT, BOTTOM = 60.0, 26.0
ROW = 16.0
NAME = "soak.html"

STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1040px;margin:2em auto;padding:0 1em;color:#222;background:#fff}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:1.8em}
table{border-collapse:collapse}td,th{padding:.15em 1.2em .15em 0;text-align:left;vertical-align:top}
td.n{text-align:right;font-variant-numeric:tabular-nums}
.good{color:#17743a}.bad{color:#b3261e}.little{color:#8a5a00}
svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:#555}
pre{white-space:pre-wrap;background:#f6f6f6;padding:.6em;font-size:13px}
.p{stroke:#2f6fde;fill:none}.d{stroke:#17743a;fill:none}.grid{stroke:#ddd}.k{fill:#b3261e}.f{fill:#8a5a00}
.u{fill:#7b3fa0}.l{fill:#888}.key-p{color:#2f6fde}.key-d{color:#17743a}
"""


def write_report(result: Result, short: Sequence[str], folder: Path) -> Path:
    """Write the page into a folder; returns its path (Path).

    Args:
        short: what it was to show and has not.

    Raises:
        OSError: it cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    path.write_text(page(result, short), encoding="utf-8")
    return path


def page(result: Result, short: Sequence[str]) -> str:
    """The page (str)."""
    plan = result.plan
    what = (
        f"{plan.publishers} publishers, {plan.workers} workers, {plan.groups:,} groups, {plan.minutes:g} minutes; "
        f"rqfast {__version__}, Python {platform.python_version()}, {platform.system()}; seed {plan.seed}"
    )
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        f"<title>rqfast soak: {escape(verdict(result, short))}</title>",
        f"<style>{STYLE}</style><h1>rqfast soak: {_coloured(result, short)}</h1><p>{escape(what)}",
        "<h2>What happened when</h2>",
        timeline(result),
        "<h2>What was seen</h2>",
        _table((name, text) for name, text in summary(result).items()),
        "<h2>The rules</h2>",
        _table((rule, _kept(result, rule)) for rule in RULES),
        _broken(result),
        _little(short),
    ]
    return "\n".join(part for part in parts if part) + "\n"


def verdict(result: Result, short: Sequence[str]) -> str:
    """In a word how it went (str)."""
    if not result.passed:
        return "FAILED"
    return "nothing was broken, but too little was shown" if short else "passed"


def summary(result: Result) -> dict[str, str]:
    """What was seen, in figures: what -> how much."""
    shown, figures = result.shown, result.figures
    seconds = max(figures.seconds, 1e-9)
    faults = _counted(fault.kind for fault in result.faults for _ in range(fault.count))
    replies = [fault for fault in result.faults if fault.is_lost_reply]
    rows = {
        "messages": f"{shown.messages:,} in {shown.groups:,} groups, {shown.messages / seconds:,.0f} a second",
        "done": f"{shown.done:,} acknowledgements were confirmed, of {shown.leases:,} leases",
        "other calls": ", ".join(f"{count:,} {name}" for name, count in sorted(shown.calls.items()) if name != "ack"),
        "killed": f"{len(result.kills):,} processes, {shown.cut:,} of them in a call",
        "lapsed": f"{shown.lapses:,} leases; {shown.taken_over:,} were taken over, {shown.orphans:,} of killed workers",
        "refused": f"{shown.refused:,} settlements of leases that were lost; {shown.late:,} late ones were accepted",
        "not applied": f"{shown.unavailable:,} calls, as they were told",
        "unknown": _unknown(shown),
        "longest": f"pause {shown.longest_pause:.2f} s, call {shown.longest_call:.2f} s, "
        f"take-over {shown.longest_take_over:.2f} s after the lease",
    }
    if result.faults:
        rows["faults"] = faults
    if replies:
        applied = sum(fault.count for fault in replies if fault.applied)
        rows["lost replies"] = (
            f"{sum(fault.count for fault in replies):,}, of which {applied:,} were of requests that were applied"
        )
    return rows


def timeline(result: Result) -> str:
    """Rates and events over time (SVG)."""
    figures = result.figures
    top = max([1, *figures.published, *figures.done])
    rows = _rows(result)
    height = HEIGHT + BOTTOM + ROW * len(rows)
    drawn = [f'<svg viewBox="0 0 {WIDTH:g} {height:g}" role=img aria-label="rates and events over time">']
    for share in (0.0, 0.5, 1.0):
        y = HEIGHT - share * (HEIGHT - 20)
        drawn.append(f'<line class=grid x1="{LEFT:g}" x2="{WIDTH:g}" y1="{y:.1f}" y2="{y:.1f}"/>')
        drawn.append(f'<text x="0" y="{y + 4:.1f}">{share * top / figures.width:,.0f}/s</text>')
    drawn += [_line("p", figures.published, top), _line("d", figures.done, top)]
    for part in range(5):
        x = LEFT + part / 4 * (WIDTH - LEFT - 40)
        drawn.append(f'<text x="{x:.1f}" y="{HEIGHT + 16:g}">{part / 4 * figures.seconds:,.0f} s</text>')
    for number, (kind, label, events) in enumerate(rows):
        y = HEIGHT + BOTTOM + ROW * number
        drawn.append(f'<text x="0" y="{y + 10:.1f}">{escape(label)}</text>')
        drawn += [_mark(kind, figures, at, y, text) for at, text in events]
    key = "<p><b class=key-p>published</b> and <b class=key-d>acknowledged</b> a second"
    return "".join([*drawn, "</svg>", key])


def _rows(result: Result) -> list[tuple[str, str, list[tuple[float, str]]]]:
    figures = result.figures
    kills = [(figures.since(kill.at), kill.who) for kill in result.kills]
    rows = [("k", "killed", kills)] if kills else []
    for kind in sorted({fault.kind for fault in result.faults}):
        of_kind = [fault for fault in result.faults if fault.kind == kind]
        rows.append(("f", kind[:9], [(figures.since(fault.at), f"{kind} {fault.node}") for fault in of_kind]))
    if figures.unknown:
        rows.append(("u", "unknown", [(at, "outcome unknown") for at in figures.unknown]))
    if figures.lost:
        rows.append(("l", "lost", [(at, "lease lost") for at in figures.lost]))
    return rows


def _x(figures: Figures, at: float) -> float:
    return LEFT + min(max(at / max(figures.seconds, 1e-9), 0.0), 1.0) * (WIDTH - LEFT)


def _line(kind: str, counts: Sequence[int], top: int) -> str:
    step = (WIDTH - LEFT) / max(1, len(counts))
    points = [
        f"{LEFT + (place + 0.5) * step:.1f},{HEIGHT - count / top * (HEIGHT - 20):.1f}"
        for place, count in enumerate(counts)
    ]
    return f'<polyline class={kind} points="{" ".join(points)}"/>'


def _mark(kind: str, figures: Figures, at: float, y: float, text: str) -> str:
    title = f"<title>{at:.1f} s: {escape(text)}</title>"
    return f'<rect class={kind} x="{_x(figures, at) - 1:.1f}" y="{y:.1f}" width="2" height="{ROW - 4:g}">{title}</rect>'


def _table(rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"<tr><th>{escape(name)}<td>{text if text.startswith('<b') else escape(text)}" for name, text in rows]
    return f"<table>{''.join(lines)}</table>"


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


def _unknown(shown: Shown) -> str:
    told = [
        f"{name}: {ended.applied:,} applied, {ended.not_applied:,} not"
        + (f", {ended.untold:,} cannot be told" if ended.untold else "")
        for name, ended in sorted(shown.unknown.items())
    ]
    return "; ".join(told) or "none"


def _counted(kinds: Iterable[str]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in sorted(Counter(kinds).items())) or "none"
