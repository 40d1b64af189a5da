"""Makes docs/benchmarks.md and its charts: `python -m bench.render RESULTS.json docs/benchmarks.md`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from . import charts

GROUPS = {
    "publish": "Publish",
    "claim+ack": "Claim and acknowledge",
    "latency": "Latency of one lone call",
    "depth": "Depth of the queue",
    "parked": "Behind groups that cannot be claimed",
    "idle": "Idle",
    "embedded": "Embedded SQLite",
    "subscriptions": "Subscriptions",
    "core": "Client CPU",
}
INTRODUCTION = """# Benchmarks

Made by `make bench`; nothing here is written by hand. How it was measured:

- *rqfast* is what `connect` and `connect_async` return, with its defaults. Each worker has an id of its own.
- *httpx* is the pure-Python transport that rqfast replaces (`bench/reference`), with a pool of 256 connections, at the
  best of 1, 8, 64 and 256 callers, and on as few messages as it can bear. It writes 1 Raft entry a publish and 4 a
  message that is claimed and acknowledged; the run fails when it does not.
- *bare* (`bench/bare.py`) is what one would write by hand: the same statements as rqfast's, one call a request, over
  aiohttp and orjson, at the better of 64 and 128 in flight.
- *raw* (`bench/raw.py`) is the ceiling of the server with these statements: bodies encoded beforehand, plain sockets,
  the best number of rows a request and of requests in flight.
- The sides run in turn, in rounds, against the same server. A figure is the median of the rounds, ± is half of the
  distance between the fastest and the slowest; where the sides lie within each other's spread, that is no difference.
- A run that lost a message, had one twice or out of order fails and is not shown. (Of *bare* the order is not tested:
  one call a request keeps none.)
- Ratios hold on other machines better than absolute figures do. What a commit costs depends on the disk: see its
  fdatasync/s below.
"""
SIDES = ("rqfast", "bare", "httpx", "raw")


def main(results: Path, document: Path) -> None:
    """Read the one, write the other; charts go into a folder beside it."""
    data = json.loads(results.read_text(encoding="utf-8"))
    folder = document.parent / document.stem
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    found = data["benchmarks"]
    lines = [INTRODUCTION, "## The machine", "", *machine(data["machine_info"]["rqfast bench"]), ""]
    rows = [row for benchmark in found for row in benchmark["extra_info"].get("rows", [])]
    for group, title in GROUPS.items():
        of_group = [row for row in rows if row["group"] == group]
        pictures = [*draw(group, found, folder, document.stem)]
        if group == "core":
            pictures += draw_cpu(found, folder, document.stem)
        if of_group or pictures:
            lines += [f"## {title}", "", *tables(of_group), *pictures]
    lines += ["## What a message costs", "", *costs(found)]
    document.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


def machine(info: dict[str, str]) -> list[str]:
    """A table of the machine and all versions."""
    return [*table(["", ""], ([name, value] for name, value in info.items()))]


def tables(rows: list[dict[str, Any]]) -> Iterator[str]:
    """One table a server."""
    heading = ["work", "against", "rqfast", "other side", "ratio", "goal", "reached"]
    for server in dict.fromkeys(row["server"] for row in rows):
        yield f"### {server}"
        yield ""
        yield from table(heading, (row["cells"] for row in rows if row["server"] == server))
        yield ""


def table(heading: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    """In Markdown."""
    yield "| " + " | ".join(heading) + " |"
    yield "|" + "---|" * len(heading)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def costs(found: list[dict[str, Any]]) -> Iterator[str]:
    """Raft entries, requests and CPU a message, of every comparison."""
    heading = [
        "work",
        "side",
        "setting",
        "Raft entries",
        "requests",
        "client CPU, us",
        "p50, p99 of a publish or an ack, ms",
    ]

    def rows() -> Iterator[list[str]]:
        for benchmark in found:
            for side, cost in benchmark["extra_info"].get("sides", {}).items():
                requests = cost["requests_a_message"]
                latency = f"{cost['p50_ms']:g}, {cost['p99_ms']:g}" if "p50_ms" in cost else ""
                yield [
                    benchmark["name"].removeprefix("test_").replace("_", " "),
                    side,
                    cost["how"],
                    f"{cost['raft_entries_a_message']:g}",
                    "" if requests is None else f"{requests:g}",
                    f"{cost['client_cpu_us_a_message']:g}",
                    latency,
                ]

    yield from table(heading, rows())


def draw(group: str, found: list[dict[str, Any]], folder: Path, link: str) -> Iterator[str]:
    """The charts of a group; their lines in the document."""
    for benchmark in found:
        if benchmark["group"] != group:
            continue
        extra, place = benchmark["extra_info"], server_of(benchmark)
        for key, draw_one in (("throughput", throughput), ("claim_seconds", depth)):
            if key in extra:
                file = f"{re.sub('[^a-z]+', '-', group)}-{place.replace(' ', '-')}.svg"
                title = draw_one(folder / file, extra[key], group, place)
                yield from (f"![{title}]({link}/{file})", "")


def server_of(benchmark: dict[str, Any]) -> str:
    """As the rows call it."""
    for row in benchmark["extra_info"].get("rows", []):
        return str(row["server"])
    return "server"


def throughput(path: Path, data: dict[str, dict[str, float]], group: str, place: str) -> str:
    """Messages a second against callers."""
    title = f"{GROUPS[group]}: messages a second against calls in flight, {place}"
    charts.curves(path, title, "calls in flight", "messages a second", data)
    return title


def depth(path: Path, data: dict[str, dict[str, float]], group: str, place: str) -> str:
    """Time of a claim against depth."""
    title = f"Time of a claim against messages in the queue, {place}"
    charts.curves(path, title, "messages in the queue", "median time of a claim, ms", data, 1e3)
    return title


def draw_cpu(found: list[dict[str, Any]], folder: Path, link: str) -> Iterator[str]:
    """CPU a message of all groups, one chart a server."""
    places: dict[str, dict[str, list[float]]] = {}
    for benchmark in found:
        places.setdefault(server_of(benchmark), {}).update(benchmark["extra_info"].get("cpu", {}))
    for place, data in places.items():
        if data:
            title = f"Client CPU a message, {place}"
            file = f"cpu-{place.replace(' ', '-')}.svg"
            charts.bars(folder / file, title, "us of process time a message (logarithmic)", dict(sorted(data.items())))
            yield from (f"![{title}]({link}/{file})", "")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
