"""`rqfast demo`: what is seen of the demo.  What it does is in rqfast.demo."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from ..demo.run import MAX_WORKERS, MIN_WORKERS, VISIBILITY, Plan, Result, queue_name, run
from ..demo.source import Source
from .console import make_console, say, show, without_password
from .options import Debug

FIELD = "origin"
INTERRUPTED = 130


class Screen:
    """Shows how the demo goes on: bars where stderr is a terminal, a line for each step where stdout is none."""

    def __init__(self, console: Console) -> None:
        self.console = console
        stderr = make_console(stderr=True)
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=stderr,
            disable=not stderr.is_terminal,
        )
        self._bar = TaskID(0)

    def begin_publishing(self, total: int) -> None:
        """See `Watcher`."""
        self._begin("Publishing", total)

    def published(self, count: int) -> None:
        """See `Watcher`."""
        self._bars.update(self._bar, completed=count)

    def begin_working(self, total: int) -> None:
        """See `Watcher`."""
        self._begin("Working   ", total)

    def worked(self, count: int) -> None:
        """See `Watcher`."""
        self._bars.update(self._bar, completed=count)

    def killed(self, worker: str, held: int) -> None:
        """See `Watcher`."""
        note = f"{worker} killed with {held} messages in work"
        self._bars.update(self._bar, note=note)
        self._say(note)

    def close(self) -> None:
        """The bars stay as they are."""
        if not self._bars.disable:  # or some versions of rich end the line that is not there
            self._bars.stop()

    def _begin(self, what: str, total: int) -> None:
        self._bar = self._bars.add_task(what, total=total, note="")
        self._bars.start()
        self._say(f"{what.strip()} {total:,} messages")

    def _say(self, line: str) -> None:
        if not self.console.is_terminal:
            say(self.console, line)


def demo(
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            "-u",
            help="Database: http://host:4001 for rqlite, or a file. By default a fresh SQLite file.",
            metavar="URL",
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="JSON lines, plain or gzip. By default 20,000 flights of 2001.")
    ] = None,
    group_field: Annotated[str, typer.Option(help="The field whose value is the message's group.")] = FIELD,
    workers: Annotated[
        int, typer.Option(min=MIN_WORKERS, max=MAX_WORKERS, help="Processes, the one that is killed included.")
    ] = 4,
    queue: Annotated[str | None, typer.Option(help="Name of a new queue for the demo. By default one made up.")] = None,
    debug: Debug = False,
) -> None:
    """Publish a file, work it in several processes, kill one of them, and check that no promise was broken."""
    console = make_console()
    screen = Screen(console)
    folder = Path(tempfile.mkdtemp(prefix="rqfast-demo-"))
    keep = False
    try:
        name = queue or (None if url is None else queue_name())
        plan = Plan(Source(file, group_field), url or str(folder / "queue.db"), name, folder, workers)
        say(console, introduction(plan, is_fresh=url is None))
        result = run(plan, screen)
        keep = not result.verdict.passed
        screen.close()
        show(console, summary(result, workers))
        say(console, failure(result, folder) if keep else success(result, plan, is_fresh=url is None))
    except KeyboardInterrupt:
        screen.close()
        say(console, "Stopped; the workers are gone.")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        screen.close()
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    if keep:
        raise typer.Exit(1)


def introduction(plan: Plan, *, is_fresh: bool) -> str:
    """What the demo is about to do (str)."""
    source = plan.source
    what = "flights of 2001" if source.path is None else f"messages from {source.name}"
    where = "a fresh SQLite file" if is_fresh else f"the new queue {plan.queue} of {without_password(plan.url)}"
    return (
        f"rqfast demo: {source.count:,} {what}; those with the same {source.field} are a group, worked in order.\n"
        f"  publish  into {where}\n"
        f"  work     in {plan.workers} processes, of which one is killed (SIGKILL) while it has messages in work\n"
        "  check    from what the workers wrote down: all done, in order, never two workers in one group"
    )


def summary(result: Result, workers: int) -> dict[str, str]:
    """How it went, in figures: what -> how much."""
    verdict, published = result.verdict, result.published
    count = len(published.seqs)
    working = rate(verdict.done, verdict.seconds)
    rows = {
        "published": f"{count:,} messages in {verdict.groups:,} groups, {rate(count, published.seconds)}",
        "worked": f"{verdict.done:,} messages by {workers} processes, {working}, waits included",
        "killed": f"{result.victim}, with {verdict.held:,} messages in work",
        "redelivered": f"{verdict.redelivered:,} messages",
    }
    if verdict.waits:
        wait = verdict.waits[0]
        rows["waited"] = (
            f"{len(verdict.waits):,} groups for the dead worker's leases ({VISIBILITY:g} s); {wait.group} stood still "
            f"for {wait.seconds:.2f} s at line {wait.line:,}, with {wait.behind:,} more messages behind it"
        )
    return rows


def success(result: Result, plan: Plan, *, is_fresh: bool) -> str:
    """What was proved, and where to go on (str)."""
    verdict = result.verdict
    stays = "" if is_fresh else f"The queue {plan.queue} is empty now, its tables stay.\n"
    return (
        f"Passed in {result.seconds:.1f} s: all {verdict.done:,} messages were done, the order held in each of the "
        f"{verdict.groups:,} groups, never two workers in one group.\n"
        f"{stays}Next: `rqfast publish GROUP 1 --url queue.db --create` makes a queue of your own; --url runs this on "
        "rqlite."
    )


def failure(result: Result, folder: Path) -> str:
    """What is wrong (str)."""
    faults = result.verdict.faults
    lines = [f"FAILED after {result.seconds:.1f} s:", *(f"  {fault}" for fault in faults)]
    return "\n".join([*lines, f"What the workers wrote down is in {folder}"])


def rate(count: int, seconds: float) -> str:
    """Seconds and messages a second (str)."""
    return f"{seconds:.2f} s: {count / max(seconds, 1e-9):,.0f} a second"
