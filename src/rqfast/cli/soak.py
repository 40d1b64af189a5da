"""`rqfast soak`: what is seen of a soak.  What it does is in rqfast.soak."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from ..soak.report import write_report
from ..soak.run import MAX_PROCESSES, Plan, Result, queue_name, run, told_enough
from ..soak.summary import summary, verdict
from .console import make_console, say, show, without_password
from .new_file import NewFile
from .options import Debug, Url, UrlFirst
from .queue import place
from .wording import count

INTERRUPTED = 130
BROKEN, TOO_LITTLE = 1, 2
SHOWN = 12
LINE_SECONDS = 10.0
# What a soak is to show, for each minute.
MESSAGES, TAKEN_OVER, KILLS = 3000, 3, 3


class Screen:
    """Shows how a soak goes on: a bar on a terminal, a line now and then elsewhere."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=console,
            disable=not console.is_terminal,
        )
        self._bar = TaskID(0)
        self._kills = 0
        self._next_line = LINE_SECONDS

    def begin(self, what: str, seconds: float | None) -> None:
        """See `Watcher`."""
        self._bar = self._bars.add_task(what.ljust(8), total=seconds, note="")
        self._bars.start()
        self._next_line = LINE_SECONDS
        self._say(what if seconds is None else f"{what} for {seconds:g} s")

    def goes_on(self, seconds: float, published: int, done: int) -> None:
        """See `Watcher`."""
        note = f"{published:,} published, {done:,} done, {self._kills:,} killed"
        self._bars.update(self._bar, completed=seconds, note=note)
        if seconds >= self._next_line:
            self._next_line = seconds + LINE_SECONDS
            self._say(f"  {seconds:,.0f} s: {note}")

    def killed(self, who: str) -> None:
        """See `Watcher`."""
        self._kills += 1

    def close(self) -> None:
        """The bars stay as they are."""
        self._bars.stop()

    def _say(self, line: str) -> None:
        if not self.console.is_terminal:
            say(self.console, line)


def soak(
    database: UrlFirst = None,
    url: Url = None,
    minutes: Annotated[float, typer.Option(min=0.01, help="How long the queue is driven.")] = 1.0,
    publishers: Annotated[int, typer.Option(min=1, max=MAX_PROCESSES, help="Processes that publish.")] = 2,
    workers: Annotated[int, typer.Option(min=1, max=MAX_PROCESSES, help="Processes that claim and settle.")] = 3,
    subscribers: Annotated[
        int, typer.Option(min=0, max=MAX_PROCESSES, help="Processes with a Worker that subscribes to all groups.")
    ] = 1,
    groups: Annotated[int, typer.Option(min=1, help="Groups, at least one for each publisher.")] = 100,
    report: Annotated[Path | None, typer.Option(help="A folder for the report, an HTML page.")] = None,
    queue: Annotated[str | None, typer.Option(help="Name of a new queue for it. By default one made up.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the queue's tables and the journals.")] = False,
    kill_every: Annotated[
        float, typer.Option(min=0, help="Seconds between two kills of a process, on average; 0 for none.")
    ] = 5.0,
    visibility: Annotated[float, typer.Option(min=0.5, help="Seconds that most leases last.")] = 5.0,
    timeout: Annotated[float, typer.Option(min=0.5, help="Seconds that bound each call.")] = 10.0,
    batch: Annotated[int, typer.Option(min=1, help="Messages of the largest publish.")] = 100,
    backlog: Annotated[int, typer.Option(min=1, help="Publishers pause while more messages wait.")] = 2000,
    drain: Annotated[float, typer.Option(min=1, help="Seconds to wait at the end while nothing moves.")] = 60.0,
    faults: Annotated[
        Path | None, typer.Option(help="JSON lines of time, kind and node, from what breaks the cluster meanwhile.")
    ] = None,
    wrong_clocks: Annotated[
        bool, typer.Option("--wrong-clocks", help="The wall clock of each process is wrong, and stepped meanwhile.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="Of what is done by chance.")] = None,
    need_messages: Annotated[
        int | None, typer.Option(help=f"So many were to be done. By default {MESSAGES:,} a minute.")
    ] = None,
    need_taken_over: Annotated[
        int | None,
        typer.Option(help=f"So many leases were to be taken over. By default {TAKEN_OVER} a minute."),
    ] = None,
    need_kills: Annotated[
        int | None, typer.Option(help=f"So many processes were to be killed. By default {KILLS} a minute.")
    ] = None,
    need_unknown: Annotated[int, typer.Option(help="So many outcomes were to be unknown.")] = 0,
    need_lost_replies: Annotated[int, typer.Option(help="So many replies were to be lost, by --faults.")] = 0,
    need_faults: Annotated[int, typer.Option(help="Of each kind in --faults so many were to be.")] = 0,
    debug: Debug = False,
) -> None:
    """Drive a queue from several processes, kill some of them, and check that no rule of the queue was broken."""
    where, is_rqlite = place(database or url)
    file = NewFile(where, is_rqlite)
    console = make_console()
    screen = Screen(console)
    folder = Path(tempfile.mkdtemp(prefix="rqfast-soak-"))
    plan = Plan(
        url=where,
        queue=queue or queue_name(),
        folder=folder,
        minutes=minutes,
        publishers=publishers,
        workers=workers,
        subscribers=subscribers,
        groups=groups,
        visibility=visibility,
        kill_every=kill_every,
        batch=batch,
        backlog=backlog,
        timeout=timeout,
        drain=drain,
        faults=faults,
        wrong_clocks=wrong_clocks,
        keep=keep,
        **({} if seed is None else {"seed": seed}),
    )
    needs = {
        "messages": _scaled(need_messages, MESSAGES, minutes),
        "taken_over": _scaled(need_taken_over, TAKEN_OVER, minutes),
        "kills": _scaled(need_kills, KILLS, minutes) if kill_every else 0,
        "unknown": need_unknown,
        "lost_replies": need_lost_replies,
        "faults": need_faults,
    }
    stays = True
    try:
        say(console, introduction(plan))
        result = run(plan, screen)
        screen.close()
        stays = keep or not result.passed
        status = tell(console, result, needs, report, folder if stays else None)
    except KeyboardInterrupt:
        screen.close()
        stays = keep
        say(console, "Stopped; the processes are gone.")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        screen.close()
        if not stays or not any(folder.iterdir()):
            shutil.rmtree(folder, ignore_errors=True)
        if not keep:
            file.remove()
    if status:
        raise typer.Exit(status)


def introduction(plan: Plan) -> str:
    """What is about to be done (str)."""
    return (
        f"rqfast soak: {count(plan.publishers, 'publisher')}, {count(plan.workers, 'worker')} and "
        f"{count(plan.subscribers, 'subscriber')}, {count(plan.groups, 'group')}, "
        f"in the new queue {plan.queue} of {without_password(plan.url)}; seed {plan.seed}"
    )


def tell(console: Console, result: Result, needs: dict[str, int], report: Path | None, kept: Path | None) -> int:
    """Show how it went, and write the report; returns the exit status (int).

    Args:
        report: the folder for it, None: none is wanted.
        kept: where the journals stay, None: they do not.
    """
    short = told_enough(result, needs)
    show(console, summary(result))
    broken = result.verdict.broken
    lines = [f"  {reason}" for reason in result.dead]
    lines += [f"  {rule}: {count:,} times" for rule, count in result.verdict.counts.items()]
    for one in broken[:SHOWN]:
        lines += [f"  {one.rule}: {one.text}", *(f"      {call}" for call in one.calls)]
    lines += [f"  {line}" for line in short] if result.passed else []
    say(console, "\n".join([f"{verdict(result, short)} in {result.seconds:.1f} s".capitalize(), *lines]))
    if report is not None:
        say(console, f"The report is {write_report(result, short, report)}")
    if kept is not None:
        say(console, f"What the processes wrote down is in {kept}")
    return BROKEN if not result.passed else TOO_LITTLE if short else 0


def _scaled(given: int | None, a_minute: int, minutes: float) -> int:
    return int(a_minute * minutes) if given is None else given
