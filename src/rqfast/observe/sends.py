"""Tells hooks of the calls of a transport that publish, and adds what they put into headers."""

from __future__ import annotations

import time
from array import array
from asyncio import CancelledError, Future
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping
from concurrent import futures
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from ..address.inbox import as_address
from ..errors import LeaseLost, PublishIncomplete
from ..model import Header, Message
from .hooks import Event, Heard, Hooks, Sending, hook_failed, tell

F = TypeVar("F", bound=Future[Any] | futures.Future[Any])
R = TypeVar("R")
Ended: TypeAlias = Callable[[Sending], object]


class Sends:
    """The hooks of one transport.  Arguments of calls are whatever the caller gave, and checked later."""

    __slots__ = ("_heard", "_queue")

    def __init__(self, heard: Heard, queue: str) -> None:
        self._heard = heard
        self._queue = queue

    def one(self, call: str, group: Any, headers: Any) -> Send:
        """A call with one message begins."""
        send = self._begin(Sending(call, _text(group), queue=self._queue, sent=_mapping(headers)))
        send.headers = send.added_to(headers)
        return send

    def row(self, address: Any, headers: Any) -> Send:
        """`publish_to` begins; nothing is added that its table has no column for."""
        inbox = as_address(address).inbox
        sending = Sending("publish_to", "", to=str(address), queue=inbox.table, sent=_mapping(headers))
        send = self._begin(sending)
        if not inbox.has("headers"):
            own = inbox.header_columns
            send.added = {name: value for name, value in send.added.items() if name in own}
        send.headers = send.added_to(headers)
        return send

    def many(self, items: Any) -> Send:
        """`publish_many` begins."""
        send = self._begin(Sending("publish_many", "", queue=self._queue, count=0))
        send.messages = items
        if send.added:
            with send:  # else its end would not be told where they are nothing of which there are many
                send.messages = send.mapped(items) if isinstance(items, AsyncIterable) else map(send.item, items)
        return send

    def ack(self, call: str, publish: Any) -> Send:
        """An acknowledgement with messages begins, or one without any."""
        if not isinstance(publish, Iterable) or isinstance(publish, str | bytes | dict):
            return Send(SILENT, Sending(call, ""), [], messages=publish)
        items = tuple(publish)
        if not items:
            return Send(SILENT, Sending(call, ""), [], messages=items)
        sending = Sending(call, "", queue=self._queue, count=len(items))
        if len(items) == 1:
            sending.group, sending.sent = _group_and_headers_of(items[0])
        send = self._begin(sending)
        send.messages = tuple(map(send.item, items)) if send.added else items
        return send

    def _begin(self, sending: Sending) -> Send:
        ends: list[tuple[Hooks, Ended]] = []
        for hook in self._heard.publishing:
            try:
                end = hook.publishing(sending)
            except Exception:
                hook_failed(hook, "publishing")
            else:
                if end is not None:
                    ends.append((hook, end))
        return Send(self._heard, sending, ends)


class Send:
    """One call, until it has ended; entered around what starts it.

    Attributes:
        headers: those of its message, with what was added.
        messages: its messages, likewise.
        added: what was added.
    """

    __slots__ = ("_began", "_ends", "_heard", "_lost", "_sending", "added", "headers", "messages")

    def __init__(self, heard: Heard, sending: Sending, ends: list[tuple[Hooks, Ended]], messages: Any = ()) -> None:
        self._heard = heard
        self._ends = ends
        self._sending = sending
        self._began = time.monotonic()
        self._lost: Exception | None = None
        self.added: Mapping[str, Header] = sending.headers
        self.headers: Any = None
        self.messages: Any = messages

    def added_to(self, headers: Any) -> Any:
        """These headers, and what was added; what no headers can be is left to be refused."""
        if not self.added:
            return headers
        if headers is None:
            return self.added
        return {**headers, **self.added} if isinstance(headers, Mapping) else headers

    def item(self, item: Any) -> Any:
        """A message in one of its forms, with what was added; what is none is left to be refused."""
        if isinstance(item, Message):
            return replace(item, headers=self.added_to(item.headers))
        if isinstance(item, tuple | list) and len(item) in (2, 3):
            return replace(Message(*item), headers=self.added)
        return item

    async def mapped(self, items: AsyncIterable[Any]) -> AsyncIterator[Any]:
        """The same of many."""
        async for item in items:
            yield self.item(item)

    # -- the end ------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.failed(error)

    def done(self, result: R) -> R:
        """The call has returned this: a seq, several, what was lost, or nothing."""
        sending = self._sending
        if self._lost is not None:
            self.failed(self._lost)
            return result
        if isinstance(result, int):
            sending.seq = result
        elif isinstance(result, array):
            sending.count = len(result)
        elif isinstance(result, list) and result:
            self.failed(LeaseLost(result[0].seq, result[0].group_id))
            return result
        self._end()
        if self._heard.published and sending.count:
            self._tell_published()
        return result

    def failed(self, error: BaseException) -> None:
        """The call has raised; a part of its messages may be in."""
        sending = self._sending
        sending.error = error
        sending.count = len(error.seqs) if isinstance(error, PublishIncomplete) else 0
        self._end()
        if isinstance(error, PublishIncomplete) and error.seqs and self._heard.published:
            self._tell_published()

    def noting(self, on_lost: Callable[[Exception], None] | None) -> Callable[[Exception], None] | None:
        """What lost="warn" does, which hides from the call's end that nothing was published."""
        if on_lost is None:
            return None

        def note(error: Exception) -> None:
            self._lost = error
            on_lost(error)

        return note

    def follow(self, future: F) -> F:
        """The call has ended when this future has."""
        future.add_done_callback(self._ended)
        return future

    def follow_room(self, room: Future[Future[int]]) -> Future[Future[int]]:
        """The call has ended when the future in this future has."""
        room.add_done_callback(self._has_room)
        return room

    def _ended(self, future: Any) -> None:
        if future.cancelled():
            self.failed(CancelledError())
        elif future.exception() is not None:
            self.failed(future.exception())
        else:
            self.done(future.result())

    def _has_room(self, room: Future[Future[int]]) -> None:
        if room.cancelled() or room.exception() is not None:
            self._ended(room)
        else:
            self.follow(room.result())

    def _end(self) -> None:
        self._sending.seconds = time.monotonic() - self._began
        for hook, end in self._ends:
            try:
                end(self._sending)
            except Exception:
                hook_failed(hook, "publishing, at the end of the call")

    def _tell_published(self) -> None:
        sending = self._sending
        event = Event(
            "",
            sending.to or sending.group,
            sending.seq,
            0,
            sending.seconds,
            headers={**sending.sent, **self.added} or None,
            count=sending.count,
            queue=sending.queue,
        )
        tell(self._heard.published, "published", event)


SILENT = Heard(())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _mapping(value: Any) -> Mapping[str, Header]:
    return value if isinstance(value, Mapping) else {}


def _group_and_headers_of(item: Any) -> tuple[str, Mapping[str, Header]]:
    if isinstance(item, tuple | list):
        return (_text(item[0]) if item else ""), {}
    return _text(getattr(item, "group_id", "")), _mapping(getattr(item, "headers", None))
