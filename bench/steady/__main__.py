"""`python -m bench.steady [--minutes M] [--nodes 1|3] [--rate N] [--every SECONDS] [--json FILE]`."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import queue
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from rqfast import connect
from tests.cluster import Cluster

from .drift import verdict
from .processes import Plan, Report, publish, work
from .watching import files, memory, rows

console = Console(width=150, highlight=False)
ENDING = 60.0
# Publishers hold while so many messages wait.
MOST = 1000
# Column -> a difference that means nothing, in its unit.
COLUMNS = {
    "published/s": 0.0,
    "worked/s": 0.0,
    "publish p99 ms": 5.0,
    "claim p99 ms": 5.0,
    "clients MiB": 5.0,
    "servers MiB": 20.0,
    "database MiB": 2.0,
    "raft MiB": 20.0,
    "messages": float(MOST),
    "groups": 50.0,
    "lane": 2.0,
    "dedup": 500.0,
}
# Of these more is better.
RATES = ("published/s", "worked/s")

Sample = dict[str, float]


class Run:
    """The processes of one run, and what was seen of them."""

    def __init__(self, cluster: Cluster, plan: Plan, publishers: int, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._cluster = cluster
        self._every = plan.every
        self._reports: Any = context.Queue()
        self._hold = context.Event()
        self._stop = {publish: context.Event(), work: context.Event()}
        jobs: list[tuple[Callable[..., None], int]] = [(publish, n) for n in range(publishers)]
        jobs += [(work, n) for n in range(workers)]
        self._processes = {
            job: [
                context.Process(target=job, args=(plan, n, self._reports, self._stop[job], self._hold), daemon=True)
                for kind, n in jobs
                if kind is job
            ]
            for job in (publish, work)
        }
        self.samples: list[Sample] = []
        self.done = {"publisher": 0, "worker": 0}
        self.failed: list[str] = []

    def start(self) -> None:
        """Start them all."""
        for process in self._all:
            process.start()

    @property
    def _all(self) -> list[Any]:
        return [process for of_kind in self._processes.values() for process in of_kind]

    def watch(self, seconds: float) -> None:
        """Print a line now and then, until the time is over or a process failed."""
        console.print("      s  " + "  ".join(f"{name:>{len(name)}}" for name in COLUMNS))
        begin = last = time.monotonic()
        while not self.failed and time.monotonic() - begin < seconds:
            time.sleep(self._every)
            now = time.monotonic()
            sample = self._sample(now - last)
            last = now
            (self._hold.set if sample["messages"] > MOST else self._hold.clear)()
            self.samples.append({"seconds": round(now - begin, 1), **sample})
            line = "  ".join(f"{sample[name]:>{len(name)},.{1 if 'ms' in name else 0}f}" for name in COLUMNS)
            console.print(f"{now - begin:7,.0f}  {line}")

    def _sample(self, seconds: float) -> Sample:
        sizes = files(self._cluster)
        clients = memory(process.pid for process in self._all)
        servers = memory(node.pid for node in self._cluster.nodes)
        found = self._collect()
        done = {kind: sum(report.done for report in found if report.who.startswith(kind)) for kind in self.done}
        p99 = {
            kind: max((report.p99 for report in found if report.who.startswith(kind)), default=0.0) * 1000
            for kind in self.done
        }
        values = (
            done["publisher"] / seconds,
            done["worker"] / seconds,
            p99["publisher"],
            p99["worker"],
            clients,
            servers,
            sizes["database"],
            sizes["raft"],
            *rows(self._cluster).values(),
        )
        return {name: round(value, 1) for name, value in zip(COLUMNS, values, strict=True)}

    def _collect(self) -> list[Report]:
        found: list[Report] = []
        with suppress(queue.Empty):
            while True:
                found.append(self._reports.get_nowait())
        for report in found:
            self.done[report.who.split()[0]] += report.done
            if report.failed:
                self.failed.append(f"{report.who}: {report.failed}")
        return found

    def end(self) -> None:
        """Let the publishers end, then the workers when nothing is left; what still runs then is ended."""
        for job in (publish, work):
            self._stop[job].set()
            end = time.monotonic() + ENDING
            while any(process.is_alive() for process in self._processes[job]) and time.monotonic() < end:
                # A process ends only when its reports were taken.
                self._collect()
                time.sleep(0.05)
        for process in self._all:
            if process.is_alive():
                self.failed.append(f"{process.name} did not end within {ENDING:g} s")
                process.kill()
            process.join(10)
        self._collect()

    def verdicts(self) -> dict[str, tuple[str, float]]:
        """Of each column; a rate may not sink, all others may not rise."""
        found = {}
        for name, slack in COLUMNS.items():
            series = [sample[name] for sample in self.samples]
            if name in RATES:
                said, growth = verdict([-value for value in series], slack)
                # Of negative numbers the growth has the same sign as of their sizes.
                found[name] = ("sinks" if said == "drifts upward" or growth < -0.1 else said, growth)
            else:
                found[name] = verdict(series, slack)
        return found

    def lost(self, left: dict[str, int]) -> list[str]:
        """What makes the run no measurement."""
        wrong = list(self.failed)
        if self.done["publisher"] != self.done["worker"] or left["messages"] or left["groups"]:
            wrong.append(f"{self.done['publisher']:,} published, {self.done['worker']:,} worked; left: {left}")
        return wrong


def main() -> int:
    """Run, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.steady", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1)
    parser.add_argument("--rate", type=float, default=1000.0, help="messages a second, of all publishers together")
    parser.add_argument("--publishers", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--groups", type=int, default=2000)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two lines")
    parser.add_argument("--json", type=Path, help="where to write what was seen")
    chosen = parser.parse_args()
    seconds = chosen.minutes * 60
    # A tenth of the run, so that the run sees many windows end.
    window = max(5.0, seconds / 10)
    with Cluster(chosen.nodes) as cluster:
        rate, groups = chosen.rate / chosen.publishers, chosen.groups // chosen.publishers
        connect(cluster.url).close()  # makes the tables
        plan = Plan(cluster.url, rate, groups, window, chosen.every / 2)
        run = Run(cluster, plan, chosen.publishers, chosen.workers)
        run.start()
        try:
            run.watch(seconds)
        finally:
            run.end()
        wrong = run.lost(rows(cluster))
    verdicts = run.verdicts()
    table = Table("", "first", "last", "growth, middle to last", "")
    for name, (said, growth) in verdicts.items():
        series = [sample[name] for sample in run.samples]
        table.add_row(name, f"{series[0]:,.0f}", f"{series[-1]:,.0f}", f"{growth:+.1%}", said)
    console.print(table)
    console.print(f"{run.done['publisher']:,} messages published, {run.done['worker']:,} worked")
    if not wrong:
        console.print("Each message was worked once, and in the order of its group.")
    for line in wrong:
        console.print(f"FAILED: {line}")
    if chosen.json:
        said = {name: {"verdict": found[0], "growth": round(found[1], 3)} for name, found in verdicts.items()}
        setting = {name: value for name, value in vars(chosen).items() if name != "json"}
        report = {"setting": setting, "done": run.done, "failed": wrong, "verdicts": said, "samples": run.samples}
        chosen.json.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
