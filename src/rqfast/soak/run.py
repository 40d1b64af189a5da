"""A soak: a queue of its own driven from several processes, some of which are killed, and its history checked."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from ..connect import connect, locate
from ..demo.journal import Journal
from ..errors import RqfastError, SchemaError
from ..transport.schema import drop_queue
from .calls import SECOND
from .crew import Crew, Kill
from .faults import STEPPED, Fault, read_faults
from .figures import Figures, measure
from .history import SLACK, Verdict, check
from .journal import Folder
from .lives import Lives
from .pauses import Pause, pauses
from .process import Job, SoakError, options_of
from .recorder import Recorder, list_dead, list_left
from .shown import Shown, show
from .wall import steps_between

log: logging.Logger = logging.getLogger("rqfast.soak")

DRIVER = "driver"
LOOK_SECONDS = 0.1
STATS_SECONDS = 2.0
MANY_DEAD = 100
OPENING_SECONDS = 30.0
MAX_PROCESSES = 64


class Watcher(Protocol):
    """Is told how the soak goes on; what shows it to somebody."""

    def begin(self, what: str, seconds: float | None) -> None:
        """A part of it begins, and takes so long, if that is known."""

    def goes_on(self, seconds: float, published: int, done: int) -> None:
        """So much of the part is over; so many messages were published and done since the begin of the soak."""

    def killed(self, who: str) -> None:
        """A process was killed, another has its place."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a soak is to do.

    Attributes:
        url: of the database.
        queue: the name of a queue that is not there yet.
        folder: for what the processes write down; empty.
        minutes: how long the processes work, before the queue is drained.
        publishers, workers: processes; 1 to 64.
        subscribers: processes with a `Worker` that subscribes to all groups; 0 to 64.
        groups: at least as many as publishers.
        visibility: how long most leases last (seconds).
        kill_every: between two kills, on average (seconds); 0: none is killed.
        batch: messages of the largest publish; the largest claim asks for two thirds of it.
        backlog: how many messages wait at the most before publishers pause.
        timeout: of a call (seconds).
        drain: how long to wait for the queue to be empty at the end, without any progress (seconds).
        faults: a file of JSON lines that something else writes, None: none does.
        wrong_clocks: whether the wall clock of each process is wrong, and stepped while it runs.
        seed: of all that is done by chance.
        keep: whether the queue stays.
        slack: how much earlier than asked a lease may end (ns).
    """

    url: str = field(repr=False)
    queue: str
    folder: Path
    minutes: float = 1.0
    publishers: int = 2
    workers: int = 4
    subscribers: int = 0
    groups: int = 100
    visibility: float = 5.0
    kill_every: float = 5.0
    batch: int = 100
    backlog: int = 2000
    timeout: float = 10.0
    drain: float = 60.0
    faults: Path | None = None
    wrong_clocks: bool = False
    seed: int = field(default_factory=lambda: secrets.randbits(32))
    keep: bool = False
    slack: int = SLACK


@dataclass(frozen=True, slots=True)
class Result:
    """How it went.

    Attributes:
        plan: what was to be done.
        verdict: which rules were broken.
        shown: what the history has shown.
        figures: its rates.
        kills: processes that were killed.
        faults: what something else did to the cluster meanwhile.
        pauses: what callers saw each time that the cluster lost its leader.
        dead: processes that ended by themselves, with their reasons.
        seconds: how long it took, without the check.
    """

    plan: Plan
    verdict: Verdict
    shown: Shown
    figures: Figures
    kills: Sequence[Kill]
    faults: Sequence[Fault]
    pauses: Sequence[Pause]
    dead: Sequence[str]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether no rule was broken and no process died (bool)."""
        return self.verdict.passed and not self.dead


def run(plan: Plan, watcher: Watcher) -> Result:
    """Run a soak.

    Raises:
        SoakError: it cannot be run or finished.
        RqfastError: the queue's own.
        OSError: a file.
    """
    check_plan(plan)
    began = time.monotonic()
    make_queue(plan)
    try:
        drive = _Drive(plan, watcher)
        drive.run()
        seconds = time.monotonic() - began
        watcher.begin("Checking", None)
        # Millions of objects, none of which is garbage.
        gc.disable()
        lives = Lives(drive.folder.read())
    finally:
        gc.enable()
        if not plan.keep:
            _drop(plan)
    kills = drive.crew.kills
    faults = [] if plan.faults is None else read_faults(plan.faults, drive.offset)
    faults += [Fault(round(at * SECOND), STEPPED, "") for at in drive.steps]
    return Result(
        plan=plan,
        verdict=check(lives, slack=plan.slack, timeout=round(plan.timeout * SECOND)),
        shown=show(lives, {kill.who for kill in kills}),
        figures=measure(lives),
        kills=kills,
        faults=sorted(faults, key=lambda fault: fault.at),
        pauses=pauses(lives, faults),
        dead=drive.crew.dead,
        seconds=seconds,
    )


def check_plan(plan: Plan) -> None:
    """Refuse what cannot be run.

    Raises:
        SoakError: it says what.
    """
    for name in ("publishers", "workers"):
        if not 1 <= getattr(plan, name) <= MAX_PROCESSES:
            raise SoakError(f"{getattr(plan, name)} {name}: 1 to {MAX_PROCESSES}")
    if not 0 <= plan.subscribers <= MAX_PROCESSES:
        raise SoakError(f"{plan.subscribers} subscribers: 0 to {MAX_PROCESSES}")
    if plan.groups < plan.publishers:
        raise SoakError(f"{plan.groups} groups: at least one for each of the {plan.publishers} publishers")
    if ":memory:" in plan.url:
        raise SoakError(":memory:, and the workers are processes of their own and cannot see this one's memory")


def make_queue(plan: Plan) -> None:
    """Make the queue's tables; never in a queue that others use.

    Raises:
        SoakError: it is there already.
    """
    options = options_of(plan.url, max(plan.timeout, OPENING_SECONDS))
    with suppress(SchemaError):
        connect(plan.url, queue=plan.queue, create=False, **options).close()
        raise SoakError(f"the queue {plan.queue!r} is there already; the soak wants one of its own, give another name")
    connect(plan.url, queue=plan.queue, **options).close()


def queue_name() -> str:
    """A name for a queue that nobody else has (str)."""
    return f"soak_{secrets.token_hex(4)}"


def _drop(plan: Plan) -> None:
    """Drop the queue's tables; that they stay hides neither the verdict nor the error that ended the soak."""
    where, is_rqlite = locate(plan.url)
    try:
        asyncio.run(drop_queue(where, is_rqlite, plan.queue))
    except RqfastError as error:
        log.warning("the queue %r stays, it could not be dropped: %s", plan.queue, error)


def write_end(recorder: Recorder, seconds: float) -> None:
    """Write down what stats() says and what is left; each is asked again until it is told.

    Args:
        seconds: how long all of it may take.

    Raises:
        SoakError: the queue does not answer.
    """
    looks: list[tuple[str, Callable[[], bool]]] = [
        ("stats()", lambda: recorder.stats() is not None),
        ("the list of what is left", lambda: recorder.listed("left", list_left)),
        ("the list of dead letters", lambda: recorder.listed("dead", list_dead)),
    ]
    end = time.monotonic() + seconds
    for what, is_told in looks:
        while not is_told():
            if time.monotonic() > end:
                raise SoakError(f"waited {seconds:g} s for {what} at the end; the queue does not answer")
            time.sleep(LOOK_SECONDS)


class _Drive:
    """The part of a soak in which the queue is driven."""

    def __init__(self, plan: Plan, watcher: Watcher) -> None:
        self._plan = plan
        self._watcher = watcher
        self._dice = random.Random(plan.seed)
        self.offset = time.time() - time.monotonic()
        self.folder = Folder(plan.folder)
        self.steps: list[float] = []
        self._told = (0, 0, 0)
        # They leave most groups to the others.
        places = max(1, min(plan.batch // 2, plan.groups // 8))
        subscribers = [replace(self._job(), concurrency=places) for _ in range(plan.subscribers)]
        self.crew = Crew(self._publishers(), self._workers(), subscribers, self.folder, self._dice)

    def run(self) -> None:
        """Drive it, drain it, and write down what is left.

        Raises:
            SoakError: a process did not start, or the queue does not answer at the end.
        """
        plan = self._plan
        with Journal(self.folder.journal(DRIVER)) as journal, self.crew as crew:
            options = options_of(plan.url, plan.timeout)
            with connect(plan.url, queue=plan.queue, create=False, **options) as transport:
                recorder = Recorder(DRIVER, transport, journal)
                crew.wait_ready()
                self._watcher.begin("Soaking", plan.minutes * 60)
                began = time.monotonic()
                self._soak(recorder)
                if plan.wrong_clocks:
                    self.steps = steps_between(began, time.monotonic())
                self._watcher.begin("Draining", None)
                self._drain(recorder)
                crew.stop(plan.timeout * 2 + plan.visibility)
                write_end(recorder, OPENING_SECONDS)

    def _soak(self, recorder: Recorder) -> None:
        began = time.monotonic()
        next_kill, next_stats = began + self._until_kill(), began
        while (now := time.monotonic()) < began + self._plan.minutes * 60:
            self._look(now - began)
            if self.crew.dead:
                return
            if now >= next_kill:
                self._watcher.killed(self.crew.kill_one().who)
                next_kill = time.monotonic() + self._until_kill()
            if now >= next_stats:
                self._ask(recorder)
                next_stats = time.monotonic() + STATS_SECONDS
            time.sleep(LOOK_SECONDS)

    def _ask(self, recorder: Recorder) -> None:
        """Look how many messages wait; bring back dead letters when they are many."""
        stats = recorder.stats()
        if stats is None:
            return
        self._told = (stats.messages, self.crew.published, self.crew.done)
        if stats.dead > MANY_DEAD:
            recorder.redrive()

    def _look(self, seconds: float) -> None:
        crew = self.crew
        crew.look()
        self._watcher.goes_on(seconds, crew.published, crew.done)
        messages, published, done = self._told
        # Not all that was ever published and not told to be done: what was done with an unknown outcome is gone too.
        if messages + (crew.published - published) - (crew.done - done) > self._plan.backlog:
            self.folder.set("slow")
        else:
            self.folder.clear("slow")

    def _drain(self, recorder: Recorder) -> None:
        """Wait until the queue is empty, or nothing moves any more."""
        self.folder.set("drain")
        self.crew.wait_publishers(self._plan.timeout * 2)
        began = moved = time.monotonic()
        last: tuple[int, int] | None = None
        while time.monotonic() < moved + self._plan.drain:
            self._look(time.monotonic() - began)
            stats = recorder.stats()
            if stats is not None:
                if not stats.messages and not stats.dead:
                    return
                if stats.dead:
                    recorder.redrive()
                if (stats.messages, stats.dead) != last:
                    last, moved = (stats.messages, stats.dead), time.monotonic()
            time.sleep(LOOK_SECONDS)

    def _until_kill(self) -> float:
        every = self._plan.kill_every
        return self._dice.uniform(0.5, 1.5) * every if every else self._plan.minutes * 60 + 1

    def _job(self, groups: Sequence[str] = ()) -> Job:
        plan = self._plan
        return Job(
            who="",
            url=plan.url,
            queue=plan.queue,
            folder=plan.folder,
            seed=plan.seed,
            groups=tuple(groups),
            visibility=plan.visibility,
            timeout=plan.timeout,
            batch=plan.batch,
            wrong_clock=plan.wrong_clocks,
        )

    def _publishers(self) -> list[Job]:
        plan = self._plan
        names = [f"g{number}" for number in range(plan.groups)]
        return [self._job(names[number :: plan.publishers]) for number in range(plan.publishers)]

    def _workers(self) -> list[Job]:
        return [self._job() for _ in range(self._plan.workers)]


def told_enough(result: Result, needs: dict[str, int]) -> list[str]:
    """What a soak was to show and has not, a line each.

    Args:
        needs: the least: messages, taken_over, kills, unknown, lost_replies, faults (of each kind).
    """
    shown = result.shown
    kinds: Counter[str] = Counter()
    replies = {True: 0, False: 0}
    for fault in result.faults:
        kinds[fault.kind] += fault.count
        if fault.is_lost_reply:
            replies[bool(fault.applied)] += fault.count
    seen = {
        "messages": (shown.messages, "messages"),
        "taken_over": (shown.taken_over, "leases taken over"),
        "kills": (len(result.kills), "killed processes"),
        "unknown": (sum(ended.total for ended in shown.unknown.values()), "unknown outcomes"),
        "lost_replies": (sum(replies.values()), "lost replies"),
        "faults": (min(kinds.values(), default=0), "faults of the rarest kind"),
    }
    short = [
        f"{seen[name][0]:,} {seen[name][1]}, at least {least:,} were to be"
        for name, least in needs.items()
        if seen[name][0] < least
    ]
    if needs.get("lost_replies") and not all(replies.values()):
        missing = "was applied" if replies[False] else "was not applied"
        short.append(f"of the lost replies none was of a request that {missing}")
    return short
