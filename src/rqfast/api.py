"""The public methods of a transport: signature, types and docstring of each, once.

`Transport` is what `connect` returns, `AsyncTransport` its twin with the same names and arguments, whose methods
start at the call and return a future.  Both are Protocols: annotate with them, check with isinstance.
"""

from __future__ import annotations

from array import array
from asyncio import Future
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from concurrent import futures
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

from ._core import Lease
from .address.inbox import Address, Inbox
from .model import DeadLetter, GroupInfo, Header, Message, Seconds, Stats, StoredMessage

T = TypeVar("T")

Item = Message | tuple[str, Any] | tuple[str, Any, int]


@runtime_checkable
class Transport(Protocol[T]):
    """A queue: publish, claim, settle, operate.  May be shared by threads.

    Every call returns when its effect is committed, and raises `Closed` after `close`, `Unavailable` when nothing
    was applied for want of a node, `OutcomeUnknown` when that cannot be told.
    """

    def publish(
        self,
        group_id: str,
        event: Any,
        priority: int = 0,
        *,
        delay: Seconds = 0,
        rank: int = 0,
        headers: Mapping[str, Header] | None = None,
        dedup_id: str | None = None,
        with_statements: Iterable[Sequence[Any]] = (),
        connection: Any = None,
    ) -> int:
        """Publish a message and return its seq (int, rising).

        Args:
            group_id: messages of a group are worked one at a time, in order; 1 to 1,024 UTF-8 bytes.
            event: any JSON value, 16 MiB of text at most; `bytes` are JSON text already encoded and are kept byte for
                byte, a `str` is a JSON string.
            priority: the group's, 0 to 4, set by its first publish; `min_priority` of a claim filters by it.
            delay: seconds until it is due; it holds back nothing due earlier of its rank or a smaller one.
            rank: its place in the group, smaller first.
            headers: str to str, int, float, bool or None; 64 KiB at most.
            dedup_id: the same id within `dedup_window`, acknowledged or not, in whatever group of the queue, is not
                published again: the first seq is returned, and nothing of the second is compared or applied.
            with_statements: the caller's own `[sql, *parameters]`, which commit with the publish or not at all (so not
                when its `dedup_id` stands), in a request of their own.  Placeholders are written `?`; no RETURNING;
                nothing that each node of a cluster would answer differently (the time, random numbers): bind a value.
            connection: on SQLite only: a `sqlite3.Connection` to the queue's file (or a session or connection of an
                ORM that has one) in whose open transaction the message is published: it is there when the caller
                commits, and not when the caller rolls back.  Waiting claims see it within `max_poll` after that.

        Raises:
            TypeError, InvalidMessage: the input; nothing was sent.
            StatementError: one of `with_statements` failed; nothing was applied.

        Example:
            >>> t.publish("customer-7", order, with_statements=[["INSERT INTO orders VALUES(?, ?)", 7, 99.5]])
        """

    def publish_to(
        self,
        address: Inbox | Address,
        value: Any,
        *,
        priority: int | None = None,
        retry_after: Seconds | None = None,
        headers: Mapping[str, Header] | None = None,
    ) -> None:
        """Publish a row into a table of the user's own, once, and wake the subscriptions on it.

        What is not generated and has no value here is NULL, or the default of the class.

        Args:
            address: one group, `Inbox(...).group("crm")`; or the Inbox, where its table has no groups.
            value: the payload: `bytes` are kept, all else is stored as JSON text.
            priority: its place in the group, smaller first; 0 by default.
            retry_after: seconds until it is due.
            headers: str to str, int, float, bool or None.

        Raises:
            ConfigError: rows of that table cannot be published from here; it says which column has no value.
            InvalidMessage, TypeError: a value, or one for which the table has no column; nothing was sent.

        Example:
            >>> t.publish_to(crm, {"customer": 7}, priority=2)
        """

    def publish_soon(
        self,
        group_id: str,
        event: Any,
        priority: int = 0,
        *,
        delay: Seconds = 0,
        rank: int = 0,
        headers: Mapping[str, Header] | None = None,
        dedup_id: str | None = None,
    ) -> futures.Future[int]:
        """Publish a message without waiting for it: a future of its seq, and many share a request.

        Waits only for room, when `max_in_flight` of them are on their way.  The arguments are those of `publish`.
        What fails is told by its future, and by the next `flush` or `close`.

        Example:
            >>> for order in orders:
            ...     t.publish_soon(order["customer"], order)
            >>> t.flush()
        """

    def flush(self) -> None:
        """Wait until all messages that were given to `publish_soon` before are in.

        Raises:
            RqfastError: the first error of those that failed since the last `flush`, with a note of how many did.
        """

    def publish_many(self, iterable: Iterable[Item], *, atomic: bool = False) -> array[int]:
        """Publish messages in order, through bounded batches, and return their seqs (array of 'q').

        The order holds in each group, and so seqs rise in each group; on rqlite the batches of different groups
        travel side by side, so seqs of different groups need not rise with the items.

        Args:
            iterable: `Message`s, or tuples of their first two or three fields.
            atomic: all of them in one transaction, or none; refused when larger than one request (`max_batch`
                messages, 1 MiB).

        Raises:
            PublishIncomplete: it stopped half-way (a bad item, the iterable raised, the cluster is gone): which are
                in, and the cause, chained.

        Example:
            >>> t.publish_many((order["customer"], order) for order in orders)
        """

    def claim(
        self,
        worker_id: str | None = None,
        visibility: Seconds = 30.0,
        min_priority: int = 0,
        *,
        wait: Seconds | None = 0,
        ack: Lease[Any] | None = None,
    ) -> Lease[T] | None:
        """Claim the head of the group that was served longest ago; None when nothing is claimable.

        Finding nothing writes nothing.

        Args:
            worker_id: shown to operators as the holder; host name and process id by default.
            visibility: how long the lease lasts, in seconds; a crash holds the group that long, no longer.
            min_priority: only groups of this priority or a higher one.
            wait: how long to wait for a message, in seconds; None: until one comes.
            ack: a lease to acknowledge in the same commit.  Was it lost, `LeaseLost` is raised and nothing stays
                claimed.
        """

    def claim_many(
        self,
        worker_id: str | None = None,
        visibility: Seconds = 30.0,
        limit: int = 1,
        min_priority: int = 0,
        *,
        wait: Seconds | None = 0,
        ack: Iterable[Lease[Any]] = (),
    ) -> list[Lease[T]]:
        """Claim the heads of up to `limit` different groups; an empty list when nothing is claimable.

        Args:
            limit: 1 to 100,000.
            ack: leases to acknowledge; raises `LeaseLost` for the first that was lost, then nothing is claimed.
        """

    def claim_run(
        self,
        worker_id: str | None = None,
        visibility: Seconds = 30.0,
        limit: int = 1,
        min_priority: int = 0,
        *,
        wait: Seconds | None = 0,
        ack: Iterable[Lease[Any]] = (),
    ) -> list[Lease[T]]:
        """Claim a run: the first messages of the group that was served longest ago, up to the first that is not due.

        The leases come in the group's order, under one token, and nobody else gets a message of the group while one
        of them is in work.  They are acknowledged in that order, one by one or as a list; `dead_letter` takes one
        out.  `nack` or `defer` of one gives back all after it, with no attempt spent; `extend` of one extends all;
        when the lease lapses all are given back, and all end when somebody then claims from the group.

        Args:
            limit: how many messages at most, 1 to 100,000.
            ack: leases to acknowledge, in their order; as in `claim_many`.

        Raises:
            OutOfOrder: by an acknowledgement of one that is not the first left; nothing was changed.

        Example:
            >>> run = t.claim_run(limit=100)
            >>> while run:
            ...     for lease in run:
            ...         work(lease.event)
            ...     run = t.claim_run(limit=100, ack=run)
        """

    def ack(
        self,
        lease: Lease[Any],
        *,
        publish: Iterable[Item] = (),
        with_statements: Iterable[Sequence[Any]] = (),
    ) -> None:
        """Acknowledge: the message is done and leaves the queue, the group goes on.

        Args:
            publish: messages, as in `publish_many`, that commit with the ack, or not at all when the lease was lost.
            with_statements: the caller's own statements, likewise; see `publish`.

        Raises:
            LeaseLost: the lease no longer holds the message; nothing was changed.
            StatementError: one of `with_statements` failed; nothing was applied, the lease stands.

        Example:
            >>> t.ack(lease, publish=[("invoices", {"order": 7})])
        """

    def nack(self, lease: Lease[Any], delay: Seconds = 0) -> None:
        """Give the message back at its place: at once, or with the group held for `delay` seconds."""

    def defer(self, lease: Lease[Any], delay: Seconds) -> None:
        """Give the message a later due time, `delay` seconds from now: it moves behind messages due earlier of its
        rank, and the group goes on.  0: behind all that are due now."""

    def extend(self, lease: Lease[Any], visibility: Seconds) -> float:
        """Let the lease end `visibility` seconds from now; sets and returns `lease.expires_at`.

        Accepted after it has lapsed only while no other message of the group is in work.
        """

    def dead_letter(self, lease: Lease[Any], reason: str) -> None:
        """Take the message out of the queue, to the dead letters, with the reason; the group goes on."""

    def ack_many(
        self,
        leases: Iterable[Lease[Any]],
        *,
        publish: Iterable[Item] = (),
        with_statements: Iterable[Sequence[Any]] = (),
    ) -> list[Lease[Any]]:
        """Acknowledge all; returns those that were lost.

        With `publish` or `with_statements` it is one transaction: was any lease lost, nothing is done.
        """

    def nack_many(self, leases: Iterable[Lease[Any]], delay: Seconds = 0) -> list[Lease[Any]]:
        """`nack` all; returns those that were lost."""

    def defer_many(self, leases: Iterable[Lease[Any]], delay: Seconds) -> list[Lease[Any]]:
        """`defer` all; returns those that were lost."""

    def extend_many(self, leases: Iterable[Lease[Any]], visibility: Seconds) -> list[Lease[Any]]:
        """`extend` all; returns those that were lost."""

    def dead_letter_many(self, leases: Iterable[Lease[Any]], reason: str) -> list[Lease[Any]]:
        """`dead_letter` all; returns those that were lost."""

    # -- for operators: reads see all that this transport has confirmed, and take nothing -----------------------

    def stats(self) -> Stats:
        """The queue in figures.

        Writes wait for it on no engine (but for a queue in memory).  It walks an index of all messages and looks at
        each group that is not held back: about 0.1 s for 1,000,000 messages in 1,000 groups, 1 to 2 s in 1,000,000.
        """

    def groups(
        self,
        *,
        state: str | None = None,
        order: str = "oldest",
        limit: int = 100,
        after: GroupInfo | str | None = None,
    ) -> list[GroupInfo]:
        """Groups and what holds them back; each call looks at all groups, and returns a page.

        Args:
            state: only those that are "claimable", "in_work", "parked", "delayed" or "paused".
            order: "oldest" (the smallest head seq first), "depth" (the most messages) or "attempts" (of the head).
            limit: 1 to 10,000.
            after: the last one of the page before, or its group_id while that group stands.

        Example:
            >>> page = t.groups(order="depth")
            >>> while page:
            ...     print(*page, sep="\\n")
            ...     page = t.groups(order="depth", after=page[-1])
        """

    def queues(self) -> list[str]:
        """The names of all queues in this database; the default queue is ''."""

    def peek(self, group_id: str, limit: int = 10) -> list[StoredMessage[T]]:
        """The first messages of a group, in claim order; takes nothing.  `limit`: 1 to 10,000."""

    def delete(self, seq: int) -> bool:
        """Delete one message, unless it is in work; whether it was there and not in work.

        A dead letter is no message of the queue: see `drop_dead_letters`.
        """

    def release(self, group_id: str) -> bool:
        """End the lease or the parking that holds this group, now: its holder gets `LeaseLost`, attempts stay.

        Returns:
            Whether there was one; a lease that had lapsed, but could still have been settled, counts.
        """

    def pause(self, group_id: str | None = None) -> None:
        """Let nothing be claimed from this group, or from the whole queue, by any process, until `resume`.

        What is in work may settle; publishing goes on.  It holds whether the group has messages or not, and stays when
        they are gone.  May be called again.
        """

    def resume(self, group_id: str | None = None) -> None:
        """End the pause of this group, or of the whole queue; groups that were paused by name stay so.

        May be called again.
        """

    def purge(self, group_id: str | None = None, *, everything: bool = False) -> int:
        """Delete all messages of a group, but for what is in work; returns how many they were.

        Takes what was published before the call; in steps of 2,000 messages, each a commit of its own that `timeout`
        bounds, so that it holds up nobody.  Dead letters stay.

        Args:
            group_id: the group; without it `everything=True` is needed, and all groups are meant.

        Raises:
            OutcomeUnknown: it could not go on, and part of it is done: call again for the rest.
        """

    def dead_letters(self, group_id: str | None = None, *, limit: int = 100, after: int = 0) -> list[DeadLetter[T]]:
        """Dead letters, of a group or of all, in the order of their seqs.

        Args:
            limit: 1 to 10,000.
            after: the seq of the last one of the page before.
        """

    def redrive(
        self, group_id: str | None = None, *, seqs: Iterable[int] | None = None, limit: int | None = None
    ) -> int:
        """Bring dead letters back into the queue; returns how many they were.

        They come back under their old seqs and due times, so in their old order and ahead of what was published later
        with their rank; attempts count from 0.  In steps, as `purge`.

        Args:
            group_id: only those of this group.
            seqs: only these.
            limit: so many at most, the smallest seqs first.
        """

    def drop_dead_letters(self, seqs: Iterable[int]) -> int:
        """Delete these dead letters for good; returns how many of them there were."""

    def close(self) -> None:
        """Send what was begun, end waiting claims with `Closed`, give back leases that no caller received.

        May be called again.

        Raises:
            RqfastError: all is closed, but a message of `publish_soon` failed since the last `flush`: the first error.
        """

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


@runtime_checkable
class AsyncTransport(Protocol[T]):
    """The twin of `Transport` for asyncio.

    Its methods start at the call and return a future, so the order is that of the calls; it belongs to the loop it
    was first used on.  What each method does is told at `Transport`.  Await the future, or pass it to
    `asyncio.gather`; no task need be made of it.  Bad input and `Closed` are raised by the call itself.
    """

    def publish(
        self,
        group_id: str,
        event: Any,
        priority: int = 0,
        *,
        delay: Seconds = 0,
        rank: int = 0,
        headers: Mapping[str, Header] | None = None,
        dedup_id: str | None = None,
        with_statements: Iterable[Sequence[Any]] = (),
        connection: Any = None,
    ) -> Future[int]:
        """As `Transport.publish`."""

    def publish_to(
        self,
        address: Inbox | Address,
        value: Any,
        *,
        priority: int | None = None,
        retry_after: Seconds | None = None,
        headers: Mapping[str, Header] | None = None,
    ) -> Future[None]:
        """As `Transport.publish_to`."""

    def publish_soon(
        self,
        group_id: str,
        event: Any,
        priority: int = 0,
        *,
        delay: Seconds = 0,
        rank: int = 0,
        headers: Mapping[str, Header] | None = None,
        dedup_id: str | None = None,
    ) -> Future[Future[int]]:
        """As `Transport.publish_soon`: awaited, it waits for room and gives a future of the seq.

        Await it before the next call for the group: what still stands in line for room may be overtaken.

        Example:
            >>> for order in orders:
            ...     await t.publish_soon(order["customer"], order)
            >>> await t.flush()
        """

    def flush(self) -> Future[None]:
        """As `Transport.flush`."""

    def publish_many(
        self, iterable: Iterable[Item] | AsyncIterable[Item], *, atomic: bool = False
    ) -> Future[array[int]]:
        """As `Transport.publish_many`; takes async iterables too."""

    def claim(
        self,
        worker_id: str | None = None,
        visibility: Seconds = 30.0,
        min_priority: int = 0,
        *,
        wait: Seconds | None = 0,
        ack: Lease[Any] | None = None,
    ) -> Future[Lease[T] | None]:
        """As `Transport.claim`.  Cancelled, also after the result had come, it gives its message back.

        (Behind `asyncio.shield`, which takes the result itself, a cancelled caller's message waits for its lease.)
        """

    def claim_many(
        self,
        worker_id: str | None = None,
        visibility: Seconds = 30.0,
        limit: int = 1,
        min_priority: int = 0,
        *,
        wait: Seconds | None = 0,
        ack: Iterable[Lease[Any]] = (),
    ) -> Future[list[Lease[T]]]:
        """As `Transport.claim_many`."""

    def claim_run(
        self,
        worker_id: str | None = None,
        visibility: Seconds = 30.0,
        limit: int = 1,
        min_priority: int = 0,
        *,
        wait: Seconds | None = 0,
        ack: Iterable[Lease[Any]] = (),
    ) -> Future[list[Lease[T]]]:
        """As `Transport.claim_run`."""

    def ack(
        self,
        lease: Lease[Any],
        *,
        publish: Iterable[Item] = (),
        with_statements: Iterable[Sequence[Any]] = (),
    ) -> Future[None]:
        """As `Transport.ack`."""

    def nack(self, lease: Lease[Any], delay: Seconds = 0) -> Future[None]:
        """As `Transport.nack`."""

    def defer(self, lease: Lease[Any], delay: Seconds) -> Future[None]:
        """As `Transport.defer`."""

    def extend(self, lease: Lease[Any], visibility: Seconds) -> Future[float]:
        """As `Transport.extend`."""

    def dead_letter(self, lease: Lease[Any], reason: str) -> Future[None]:
        """As `Transport.dead_letter`."""

    def ack_many(
        self,
        leases: Iterable[Lease[Any]],
        *,
        publish: Iterable[Item] = (),
        with_statements: Iterable[Sequence[Any]] = (),
    ) -> Future[list[Lease[Any]]]:
        """As `Transport.ack_many`."""

    def nack_many(self, leases: Iterable[Lease[Any]], delay: Seconds = 0) -> Future[list[Lease[Any]]]:
        """As `Transport.nack_many`."""

    def defer_many(self, leases: Iterable[Lease[Any]], delay: Seconds) -> Future[list[Lease[Any]]]:
        """As `Transport.defer_many`."""

    def extend_many(self, leases: Iterable[Lease[Any]], visibility: Seconds) -> Future[list[Lease[Any]]]:
        """As `Transport.extend_many`."""

    def dead_letter_many(self, leases: Iterable[Lease[Any]], reason: str) -> Future[list[Lease[Any]]]:
        """As `Transport.dead_letter_many`."""

    def stats(self) -> Future[Stats]:
        """As `Transport.stats`."""

    def groups(
        self,
        *,
        state: str | None = None,
        order: str = "oldest",
        limit: int = 100,
        after: GroupInfo | str | None = None,
    ) -> Future[list[GroupInfo]]:
        """As `Transport.groups`."""

    def queues(self) -> Future[list[str]]:
        """As `Transport.queues`."""

    def peek(self, group_id: str, limit: int = 10) -> Future[list[StoredMessage[T]]]:
        """As `Transport.peek`."""

    def delete(self, seq: int) -> Future[bool]:
        """As `Transport.delete`."""

    def release(self, group_id: str) -> Future[bool]:
        """As `Transport.release`."""

    def pause(self, group_id: str | None = None) -> Future[None]:
        """As `Transport.pause`."""

    def resume(self, group_id: str | None = None) -> Future[None]:
        """As `Transport.resume`."""

    def purge(self, group_id: str | None = None, *, everything: bool = False) -> Future[int]:
        """As `Transport.purge`."""

    def dead_letters(
        self, group_id: str | None = None, *, limit: int = 100, after: int = 0
    ) -> Future[list[DeadLetter[T]]]:
        """As `Transport.dead_letters`."""

    def redrive(
        self, group_id: str | None = None, *, seqs: Iterable[int] | None = None, limit: int | None = None
    ) -> Future[int]:
        """As `Transport.redrive`."""

    def drop_dead_letters(self, seqs: Iterable[int]) -> Future[int]:
        """As `Transport.drop_dead_letters`."""

    def close(self) -> Future[None]:
        """As `Transport.close`."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
