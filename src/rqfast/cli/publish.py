"""`rqfast publish`: one message from the command line, or many from a file or the standard input."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from ..api import Transport
from ..errors import InvalidMessage, PublishIncomplete, RqfastError
from ..model import Header
from .checkpoint import Checkpoint
from .console import json_line, make_console, say, tell
from .exits import Misused
from .interrupts import Interrupts
from .lines import Damaged, Lines, Numbered, Shape, parse
from .options import Debug, Json, Queue, Url
from .progress import Bar
from .queue import MISSING_OR_CREATE, open_queue
from .wording import count
from .wording import rate as a_second

# How long a run that can be resumed may be interrupted, in seconds: so long its dedup ids are kept.
KEPT = 86400
MOST = 20_000
STDIN = "-"


def publish(
    group: Annotated[str | None, typer.Argument(help="The message's group.", metavar="GROUP")] = None,
    event: Annotated[str | None, typer.Argument(help="The event, as JSON; - is stdin.", metavar="EVENT")] = None,
    url: Url = None,
    queue: Queue = None,
    create: Annotated[bool, typer.Option("--create", help="Make the queue (and the file) if it is not there.")] = False,
    file: Annotated[Path | None, typer.Option(help="JSON lines, plain or .gz; without it those of stdin.")] = None,
    group_field: Annotated[
        str | None, typer.Option(help="Each line is an event, and this field of it its group.", metavar="FIELD")
    ] = None,
    dedup_field: Annotated[
        str | None, typer.Option(help="The field of the event that is its dedup id.", metavar="FIELD")
    ] = None,
    skip: Annotated[int, typer.Option(min=0, help="Leave out so many lines at the beginning.")] = 0,
    resume: Annotated[
        Path | None, typer.Option(help="Note in this file how far it has come, and go on from there.", metavar="FILE")
    ] = None,
    rate: Annotated[float | None, typer.Option(min=0.01, help="So many messages a second at most.")] = None,
    priority: Annotated[int, typer.Option(help="The group's, 0 to 4; set by its first message.")] = 0,
    rank: Annotated[int, typer.Option(help="Place in the group, smaller first.")] = 0,
    delay: Annotated[float, typer.Option(help="Seconds until it is due.")] = 0,
    header: Annotated[list[str] | None, typer.Option(help="A header; may be repeated.", metavar="NAME=VALUE")] = None,
    dedup_id: Annotated[str | None, typer.Option(help="Of one message: the same id is not published twice.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Publish one message and print its seq; without GROUP, one message for each line of --file or stdin.

    A line is a message, {"group_id": "customer-7", "event": {"total": 3}} (and priority, rank, delay, headers,
    dedup_id as it likes), or with --group-field an event.

    Interrupted, it ends between two pieces and says how to go on: --skip. With --resume FILE the same command goes on
    by itself, also after a crash, and publishes nothing twice: each line has a dedup id, kept for a day.
    """
    told: dict[str, Any] = {"priority": priority, "rank": rank, "delay": delay, "headers": _headers(header)}
    if group is not None:
        if file is not None or group_field is not None or resume is not None or skip or dedup_field is not None:
            raise Misused("GROUP is for one message; leave it out where lines are published")
        raw = _event(event)
        with open_queue(url, queue, create=create, missing=MISSING_OR_CREATE) as transport:
            seq = transport.publish(group, raw, dedup_id=dedup_id, **told)
        if json:
            json_line({"seq": seq})
        else:
            say(make_console(), str(seq))
        return
    if dedup_id is not None:
        raise Misused("--dedup-id is for one message; for lines it is in the line, or --dedup-field")
    if resume is not None and skip:
        raise Misused("--resume knows how much to skip: leave --skip away")
    if file is None and sys.stdin.isatty():
        raise Misused("nothing to publish: say GROUP and EVENT, or --file, or pipe lines in")
    with Lines(file) as lines:
        checkpoint = Checkpoint(resume, lines.name)
        checkpoint.progress.lines = checkpoint.progress.lines or skip
        shape = Shape(group_field, dedup_field, told, None if resume is None else checkpoint.progress.run)
        options = {} if resume is None else {"dedup_window": KEPT}
        with open_queue(url, queue, create=create, missing=MISSING_OR_CREATE, **options) as transport:
            _Publishing(transport, lines, shape, checkpoint, rate, resumes=resume is not None).run(json)


class _Publishing:
    """Lines on their way into a queue, piece by piece."""

    def __init__(
        self,
        transport: Transport[Any],
        lines: Lines,
        shape: Shape,
        checkpoint: Checkpoint,
        most_a_second: float | None,
        *,
        resumes: bool,
    ) -> None:
        self._transport = transport
        self._lines = lines
        self._shape = shape
        self._checkpoint = checkpoint
        self._rate = most_a_second
        self._resumes = resumes
        self._before = checkpoint.progress.published
        self._began = time.monotonic()
        self._interrupts = Interrupts()

    @property
    def done(self) -> int:
        """Messages that are in, of this run."""
        return self._checkpoint.progress.published - self._before

    def run(self, json: bool) -> None:
        """All of it, and what is said at the end."""
        interrupted = False
        with Bar("Publishing", self._lines.size) as bar, self._interrupts:
            try:
                self._pieces(bar)
            except KeyboardInterrupt:
                interrupted = True
        seconds = time.monotonic() - self._began
        if json:
            told = {"published": self.done, "lines": self._checkpoint.progress.lines, "seconds": round(seconds, 3)}
            json_line(told | ({"interrupted": True} if interrupted else {}))
        elif not interrupted:
            speed = f" in {seconds:,.1f} s, {a_second(self.done, seconds)}" if self.done else ""
            say(make_console(), f"Published {count(self.done, 'message')}{speed}.")
        if interrupted:
            more = ", and of what was on its way some may be" if self._interrupts.torn else ""
            tell(f"rqfast: interrupted; {self._so_far()}{more}; {self._how()}")
            raise KeyboardInterrupt

    def _pieces(self, bar: Bar) -> None:
        most = MOST if self._rate is None else max(1, min(MOST, int(self._rate / 4)))
        try:
            if self._resumes:
                self._checkpoint.begin(self._lines.first())
            for last, lines in self._lines.pieces(self._checkpoint.progress.lines, most):
                with self._interrupts.step():
                    self._piece(last, lines)
                bar.update(self.done, self._lines.position)
                if self._rate is not None:
                    time.sleep(max(0.0, self._began + self.done / self._rate - time.monotonic()))
        except Damaged as error:
            raise Damaged(f"{error}; {self._so_far()}; get the whole file and {self._how()}") from error

    def _piece(self, last: int, lines: Sequence[Numbered]) -> None:
        """Publish some lines, of which `last` is the number of the last one, and note that they are in."""
        messages, fault = parse(self._shape, lines)
        try:
            self._transport.publish_many(messages)
        except PublishIncomplete as error:
            self._note(lines, error.index)
            raise self._stopped(error, lines) from error.__cause__
        self._note(lines, len(messages), last if fault is None else None)
        if fault is not None:
            self._checkpoint.mended()
            raise InvalidMessage(f"{fault}; {self._so_far()}; mend it and {self._how()}", "line")

    def _note(self, lines: Sequence[Numbered], messages: int, last: int | None = None) -> None:
        if last is None:
            last = self._checkpoint.progress.lines if messages == 0 else lines[messages - 1][0]
        self._checkpoint.save(last, messages)

    def _stopped(self, error: PublishIncomplete, lines: Sequence[Numbered]) -> RqfastError:
        """The same error, with lines where it says items."""
        cause = error.__cause__
        if isinstance(cause, InvalidMessage) and cause.item is not None:
            self._checkpoint.mended()
            what = f"line {lines[cause.item][0]}: {str(cause).removeprefix(f'item {cause.item}: ')}"
            text = f"{what}; {self._so_far()}; mend it and {self._how()}"
            return InvalidMessage(text, cause.argument)
        text = f"{cause}; {self._so_far()}"
        if error.unknown:
            text += f", and of the next {count(error.unknown, 'message')} some may be"
            if self._resumes:
                text += " (--resume publishes none twice)"
        told = PublishIncomplete(f"{text}; {self._how()}", error.seqs, error.index, error.unknown)
        told.__cause__ = cause
        return told

    def _so_far(self) -> str:
        are = "the first message is" if self.done == 1 else f"{self.done:,} messages are"
        return f"{are} in" if self.done else "nothing is in"

    def _how(self) -> str:
        if self._resumes:
            return "go on with the same command"
        lines = self._checkpoint.progress.lines
        return f"go on with --skip {lines}" if lines else "start again"


def _event(text: str | None) -> bytes:
    """The event of the command line, as it is."""
    if text is None:
        raise Misused("an event is missing after the group; it is JSON, a text in quotes of its own")
    raw = sys.stdin.buffer.read() if text == STDIN else text.encode()
    try:
        orjson.loads(raw)
    except ValueError:
        raise Misused("the event is JSON, and a text needs quotes of its own, as in '\"hello\"'") from None
    return raw.strip()


def _headers(given: list[str] | None) -> dict[str, Header] | None:
    told: dict[str, Header] = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise Misused(f"--header {one}: it must be NAME=VALUE")
        told[name] = value
    return told or None
