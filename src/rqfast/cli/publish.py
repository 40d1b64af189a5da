"""`rqfast publish`: one message from the command line, or many from the standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import orjson
import typer

from ..errors import InvalidMessage, PublishIncomplete, RqfastError
from ..model import Message
from .options import Debug
from .queue import Json, Queue, Url, open_queue

FIELDS = tuple(Message.__dataclass_fields__)


def publish(
    group: Annotated[str | None, typer.Argument(help="The message's group.")] = None,
    event: Annotated[str | None, typer.Argument(help="The event, as JSON.")] = None,
    url: Url = None,
    queue: Queue = None,
    priority: Annotated[int, typer.Option(help="The group's, 0 to 4; set by its first message.")] = 0,
    rank: Annotated[int, typer.Option(help="Place in the group, smaller first.")] = 0,
    delay: Annotated[float, typer.Option(help="Seconds until it is due.")] = 0,
    dedup_id: Annotated[str | None, typer.Option(help="The same id is not published twice.")] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Publish one message and print its seq; without arguments, JSON lines from the standard input.

    A line is an object: {"group_id": "customer-7", "event": {"total": 3}}, and priority, delay, rank, headers,
    dedup_id as it likes.
    """
    if group is None:
        lines: list[int] = []
        with open_queue(url, queue, create=True) as transport:
            try:
                count = len(transport.publish_many(messages(sys.stdin.buffer, lines)))
            except PublishIncomplete as error:
                raise _by_line(error, lines) from error
        typer.echo(orjson.dumps({"published": count}).decode() if json else f"published {count:,} messages")
        return
    if event is None:
        raise typer.BadParameter("an event is missing after the group; it is JSON, a text in quotes of its own")
    try:
        orjson.loads(event)
    except ValueError:
        raise typer.BadParameter("the event is JSON, and a text needs quotes of its own, as in '\"hello\"'") from None
    with open_queue(url, queue, create=True) as transport:
        seq = transport.publish(group, event.encode(), priority, delay=delay, rank=rank, dedup_id=dedup_id)
    typer.echo(orjson.dumps({"seq": seq}).decode() if json else str(seq))


def _by_line(error: PublishIncomplete, lines: list[int]) -> RqfastError:
    """The same error, with the line where it says the item."""
    cause = error.__cause__
    if not isinstance(cause, InvalidMessage) or cause.item is None or cause.item >= len(lines):
        return error
    told = str(cause).removeprefix(f"item {cause.item}: ")
    return InvalidMessage(f"line {lines[cause.item]}: {told}; the first {error.index:,} messages are in", "line")


def messages(lines: Iterable[bytes], read: list[int]) -> Iterator[Message]:
    """The message of each line that is not blank; `read` gets the number of each.

    Raises:
        InvalidMessage: a line is none; it says which.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        read.append(number)
        try:
            yield Message(**_fields(orjson.loads(line)))
        except ValueError as error:
            raise InvalidMessage(f"line {number}: {error}", "line") from error


def _fields(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict) or "group_id" not in found or "event" not in found:
        raise ValueError('a line is an object with "group_id" and "event"')
    unknown = sorted(set(found) - set(FIELDS))
    if unknown:
        raise ValueError(f"a message has no {', '.join(unknown)}; it has {', '.join(FIELDS)}")
    return found
