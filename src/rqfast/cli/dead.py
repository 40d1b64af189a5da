"""`rqfast dead`: messages that were given up: look at them, bring them back, throw them away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, TypeAlias

import typer

from ..api import Transport
from ..model import DeadLetter
from .advice import advised
from .asking import must_agree
from .console import Column, json_line, make_console, one_line, say, show, show_rows, tell
from .exits import FAILED, Misused, epilog
from .options import Debug, Json, Payload, Queue, Url, Yes
from .peek import fields
from .progress import Bar, watched
from .queue import named, open_queue
from .wording import brief, count, every, instant

HEADS = (
    Column("seq", right=True),
    Column("group", fold=True),
    Column("died (UTC)"),
    Column("attempts", right=True),
    Column("reason", cut=True),
    Column("error", cut=True),
)
PAGE = 1000
# What JSON calls otherwise.
TITLES = {"group_id": "group", "raw": "payload"}
# So many dead letters of a group are counted for a question.
MOST_COUNTED = 10_000
# A look for each seq, before: so many at most, and of those that are none so many are named.
MOST_ASKED, MOST_NAMED = 200, 20

Seqs: TypeAlias = Annotated[list[int] | None, typer.Argument(help="Which, by seq.", metavar="SEQ")]
OfGroup: TypeAlias = Annotated[str | None, typer.Option("--group", help="Those of this group.")]
All: TypeAlias = Annotated[bool, typer.Option("--all", help="All of the queue.")]

dead = typer.Typer(
    name="dead",
    help="Look at dead letters, bring them back, or drop them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@dead.command("list", epilog=epilog("dead list"))
def list_dead(
    url: Url = None,
    queue: Queue = None,
    group: OfGroup = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="So many at most.")] = 100,
    after: Annotated[int, typer.Option(help="Those behind this seq.")] = 0,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List dead letters in the order of their seqs: why and when each was given up."""
    with open_queue(url, queue) as transport:
        found = transport.dead_letters(group, limit=limit, after=after)
    if json:
        for letter in found:
            json_line(as_fields(letter, payload=False))
        return
    console = make_console()
    if not found:
        say(console, "No dead letters.")
        return
    show_rows(console, HEADS, [_row(letter) for letter in found])
    if len(found) == limit:
        say(console, f"The first {limit:,}; go on with --after {found[-1].seq}, or --limit.")


@dead.command("show", epilog=epilog("dead show"))
def show_dead(
    seq: Annotated[int, typer.Argument(help="Which.", metavar="SEQ")],
    url: Url = None,
    queue: Queue = None,
    payload: Payload = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show a dead letter: all that is known of it."""
    with open_queue(url, queue) as transport:
        found = transport.dead_letters(limit=1, after=seq - 1)
    if not found or found[0].seq != seq:
        tell(f"rqfast: no dead letter {seq} in {named(queue)}; {advised(queue, 'dead', 'list')} shows those that are")
        raise typer.Exit(FAILED)
    told = as_fields(found[0], payload)
    if json:
        json_line(told)
        return
    console = make_console()
    rows = told | {name: instant(told[name]) for name in ("published_at", "due_at", "died_at")}
    error = rows.pop("error")
    rows["headers"] = ", ".join(f"{name}: {value}" for name, value in told["headers"].items())
    titles = {name: TITLES.get(name, name).replace("_", " ").replace(" at", " (UTC)") for name in rows}
    show(console, {titles[name]: str(value) for name, value in rows.items() if value not in ("", None)})
    if error:
        say(console, f"\n{error}")


@dead.command("redrive", epilog=epilog("dead redrive"))
def redrive_dead(
    seqs: Seqs = None,
    url: Url = None,
    queue: Queue = None,
    group: OfGroup = None,
    everything: All = False,
    limit: Annotated[int | None, typer.Option(min=1, help="So many at most, the smallest seqs first.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Bring dead letters back into the queue: at their old places, with attempts from 0."""
    _must_say_which(seqs, group, everything)
    with open_queue(url, queue) as transport:
        before = transport.stats().dead
        none = _none(transport, seqs, group)
        try:
            with watched("Redriving", before, "dead letters", lambda: before - transport.stats().dead):
                done = transport.redrive(group, seqs=seqs or None, limit=limit)
        except KeyboardInterrupt:
            tell(f"rqfast: interrupted; {count(transport.stats().dead, 'dead letter is', 'dead letters are')} left")
            raise
    _tell_done("redriven", done, seqs, none, group, queue, json)


@dead.command("drop", epilog=epilog("dead drop"))
def drop_dead(
    seqs: Seqs = None,
    url: Url = None,
    queue: Queue = None,
    group: OfGroup = None,
    everything: All = False,
    yes: Yes = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Delete dead letters for good; asks before."""
    _must_say_which(seqs, group, everything)
    with open_queue(url, queue) as transport:
        agreed = must_agree(lambda: _question(transport, seqs, group, queue), yes)
        none = _none(transport, seqs, group)
        done = 0
        if agreed:
            done = _drop_pages(transport, group) if not seqs else _drop_named(transport, seqs, group)
    _tell_done("dropped", done, seqs, none, group, queue, json)


def as_fields(letter: DeadLetter[Any], payload: bool) -> dict[str, Any]:
    """A dead letter for programs."""
    told = fields(letter, payload)
    return {
        name: told.get(name, getattr(letter, name, None))
        for name in ("seq", "group_id", "reason", "died_at", "error", *told)
    }


def _row(letter: DeadLetter[Any]) -> list[str]:
    return [
        str(letter.seq),
        letter.group_id,
        brief(letter.died_at),
        str(letter.attempts),
        letter.reason or "",
        (letter.error or "").strip().rpartition("\n")[2],
    ]


def _must_say_which(seqs: list[int] | None, group: str | None, everything: bool) -> None:
    if everything + bool(seqs or group is not None) != 1:
        raise Misused("say which: their seqs, --group, or --all")


def _pages(transport: Transport[Any], group: str | None) -> Iterator[list[int]]:
    page = transport.dead_letters(group, limit=PAGE)
    while page:
        yield [letter.seq for letter in page]
        page = transport.dead_letters(group, limit=PAGE, after=page[-1].seq)


def _drop_named(transport: Transport[Any], seqs: list[int], group: str | None) -> int:
    """Drop those of them that are of the group."""
    if group is not None:
        there = {seq for page in _pages(transport, group) for seq in page}
        seqs = [seq for seq in seqs if seq in there]
    return transport.drop_dead_letters(seqs)


def _drop_pages(transport: Transport[Any], group: str | None) -> int:
    done = 0
    with Bar("Dropping", None, "dead letters") as bar:
        try:
            for page in _pages(transport, group):
                done += transport.drop_dead_letters(page)
                bar.update(done)
        except KeyboardInterrupt:
            tell(f"rqfast: interrupted; {count(done, 'dead letter is', 'dead letters are')} gone")
            raise
    return done


def _none(transport: Transport[Any], seqs: list[int] | None, group: str | None) -> list[int]:
    """Those of the seqs that are no dead letters, of the group where one was named."""
    found: list[int] = []
    wanted = sorted(set(seqs or ()))
    for seq in wanted if len(wanted) <= MOST_ASKED else ():
        there = seq > 0 and transport.dead_letters(group, limit=1, after=seq - 1)
        if not there or there[0].seq != seq:
            found.append(seq)
    return found


def _question(transport: Transport[Any], seqs: list[int] | None, group: str | None, queue: str | None) -> str:
    of = named(queue) if group is None else f"group {one_line(group)} of {named(queue)}"
    if seqs:
        return f"Delete {count(len(set(seqs)), 'dead letter')} of {of} for good?"
    number = 0
    if group is None:
        number = transport.stats().dead
    else:
        for page in _pages(transport, group):
            number += len(page)
            if number > MOST_COUNTED:
                return f"Delete all dead letters of {of}, more than {MOST_COUNTED:,}, for good?"
    return f"Delete {every(number, 'dead letter')} of {of} for good?" if number else ""


def _tell_done(
    what: str, done: int, seqs: list[int] | None, none: list[int], group: str | None, queue: str | None, json: bool
) -> None:
    """How many; of those that were named, all were wanted."""
    if json:
        json_line({what: done, "queue": queue or ""})
    elif not done and not seqs and group is not None:
        say(make_console(), f"No dead letters of group {one_line(group)}.")
    else:
        say(make_console(), f"{what.capitalize()} {count(done, 'dead letter')}.")
    if seqs and done < len(set(seqs)):
        lost = len(set(seqs)) - done
        which = f": {', '.join(map(str, none[:MOST_NAMED]))}{', …' if lost > MOST_NAMED else ''}" if none else ""
        are = "is no dead letter" if lost == 1 else "are no dead letters"
        tell(f"rqfast: {lost:,} of those that were named {are} (any more){which}")
        raise typer.Exit(FAILED)
