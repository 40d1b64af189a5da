"""Rates and events of a soak over time, drawn (SVG)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from .figures import Figures

if TYPE_CHECKING:
    from .run import Result

WIDTH, HEIGHT = 1000.0, 230.0
LEFT, TOP, BOTTOM = 190.0, 14.0, 30.0
ROW = 17.0

STYLE = """
svg{width:100%;height:auto}svg text{font:11.5px system-ui,sans-serif;fill:#555}
.p{stroke:#2f6fde;fill:none;stroke-width:1.3}.d{stroke:#17743a;fill:none;stroke-width:1.3}
.grid{stroke:#ddd}.row{stroke:#eee}.k{fill:#b3261e}.f{fill:#c99645}.o{fill:#8a5a00}.u{fill:#7b3fa0}.l{fill:#999}
.key-p{color:#2f6fde}.key-d{color:#17743a}.key-o{color:#8a5a00}
"""

Event = tuple[float, str, str]


def timeline(result: Result) -> str:
    """Rates, and below them a row for each kind of event (str)."""
    figures = result.figures
    top = max([1, *figures.published, *figures.done])
    rows = _rows(result)
    height = HEIGHT + BOTTOM + ROW * len(rows)
    drawn = [f'<svg viewBox="0 0 {WIDTH:g} {height:g}" role=img aria-label="rates and events over time">']
    for share in (0.0, 0.5, 1.0):
        y = HEIGHT - share * (HEIGHT - TOP)
        drawn.append(f'<line class=grid x1="{LEFT:g}" x2="{WIDTH:g}" y1="{y:.1f}" y2="{y:.1f}"/>')
        drawn.append(_text(LEFT - 8, y + 4, f"{share * top / figures.width:,.0f}/s", "end"))
    drawn += [_line("p", figures.published, top), _line("d", figures.done, top)]
    for part in range(5):
        x = LEFT + part / 4 * (WIDTH - LEFT)
        anchor = "start" if part == 0 else "end" if part == 4 else "middle"
        drawn.append(_text(x, HEIGHT + 17, _time(part / 4 * figures.seconds), anchor))
    for number, (label, events) in enumerate(rows):
        y = HEIGHT + BOTTOM + ROW * number
        drawn.append(f'<line class=row x1="0" x2="{WIDTH:g}" y1="{y + ROW - 2:.1f}" y2="{y + ROW - 2:.1f}"/>')
        drawn.append(_text(LEFT - 8, y + 11, label, "end"))
        drawn += [_mark(figures, event, y) for event in events]
    key = "<p><b class=key-p>published</b> and <b class=key-d>acknowledged</b> a second"
    if any(fault.on_leader for fault in result.faults):
        key += "; of the faults the <b class=key-o>dark ones</b> hit the leader of that moment"
    return "".join([*drawn, "</svg>", key])


def _rows(result: Result) -> list[tuple[str, list[Event]]]:
    figures = result.figures
    rows: list[tuple[str, list[Event]]] = []
    for kind in sorted({fault.kind for fault in result.faults}, key=str.lower):
        of_kind = [fault for fault in result.faults if fault.kind == kind]
        events = [
            (figures.since(fault.at), "o" if fault.on_leader else "f", f"{kind} {fault.node}".rstrip())
            for fault in of_kind
        ]
        rows.append((kind, events))
    others = [
        ("processes killed", [(figures.since(kill.at), "k", kill.who) for kill in result.kills]),
        ("outcome unknown", _merged(figures, figures.unknown, "u", "calls with an unknown outcome")),
        ("lease lost", _merged(figures, figures.lost, "l", "calls that were told that a lease is lost")),
    ]
    return rows + [(label, events) for label, events in others if events]


def _merged(figures: Figures, times: Sequence[float], kind: str, what: str) -> list[Event]:
    """One mark for all of a bin."""
    counts = Counter(int(at / figures.width) for at in times)
    return [((place + 0.5) * figures.width, kind, f"{count:,} {what}") for place, count in sorted(counts.items())]


def _time(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds < 300 else f"{seconds / 60:,.0f} min"


def _x(figures: Figures, at: float) -> float:
    return LEFT + min(max(at / max(figures.seconds, 1e-9), 0.0), 1.0) * (WIDTH - LEFT)


def _line(kind: str, counts: Sequence[int], top: int) -> str:
    step = (WIDTH - LEFT) / max(1, len(counts))
    points = [
        f"{LEFT + (place + 0.5) * step:.1f},{HEIGHT - count / top * (HEIGHT - TOP):.1f}"
        for place, count in enumerate(counts)
    ]
    return f'<polyline class={kind} points="{" ".join(points)}"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _mark(figures: Figures, event: Event, y: float) -> str:
    at, kind, text = event
    title = f"<title>{at:.1f} s: {escape(text)}</title>"
    return (
        f'<rect class={kind} x="{_x(figures, at) - 1:.1f}" y="{y:.1f}" width="2.4" height="{ROW - 4:g}">{title}</rect>'
    )
