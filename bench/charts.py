"""The charts of docs/benchmarks.md, as SVG; their data is what `pytest bench/` put into extra_info."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

COLOURS = {"rqfast": "#1f5fa8", "bare": "#c77a1e", "httpx": "#7a7a7a"}
MARKS = {"rqfast": "o", "bare": "s", "httpx": "^"}
NAMES = {"rqfast": "rqfast", "bare": "bare aiohttp, one call a request", "httpx": "pure-Python transport (httpx)"}
# The same data gives the same file, byte for byte.
matplotlib.rcParams["svg.hashsalt"] = "rqfast"
METADATA = {"Date": None}

Curve = Mapping[str, float]


def curves(path: Path, title: str, x: str, y: str, data: Mapping[str, Curve], scale: float = 1.0) -> None:
    """One line a side, both axes logarithmic."""
    figure, axes = plt.subplots(figsize=(7, 4.2))
    for side, curve in data.items():
        points = sorted((float(at), value * scale) for at, value in curve.items())
        axes.plot(*zip(*points, strict=True), marker=MARKS[side], color=COLOURS[side], label=NAMES[side])
    axes.set(title=title, xlabel=x, ylabel=y, xscale="log", yscale="log")
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(frameon=False)
    save(figure, path)


def bars(path: Path, title: str, y: str, data: Mapping[str, list[float]]) -> None:
    """One bar a name, of the median; a line for the spread."""
    figure, axes = plt.subplots(figsize=(7, 0.6 + 0.5 * len(data)))
    names = list(data)[::-1]
    middles = [median(data[name]) for name in names]
    spread = [
        [value - min(data[name]) for name, value in zip(names, middles, strict=True)],
        [max(data[name]) - value for name, value in zip(names, middles, strict=True)],
    ]
    axes.barh(names, middles, xerr=spread, color=COLOURS["rqfast"], ecolor="#444444", height=0.55)
    axes.set(title=title, xlabel=y, xscale="log")
    axes.grid(True, axis="x", alpha=0.3)
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    """Write and forget."""
    figure.tight_layout()
    figure.savefig(path, metadata=METADATA)
    plt.close(figure)
