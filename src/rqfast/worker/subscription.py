"""A subscription: which messages go to which handler, and what becomes of those that fail.  It only describes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from .._core import Lease
from ..address.inbox import Address, Inbox, as_address
from ..address.selection import Selection
from ..errors import ConfigError
from ..model import Seconds
from ..transport import checks
from .backoff import Backoff, as_backoff
from .decode import Decoder, decoder_of
from .inbox_dead_letters import dead_letters_of
from .outcomes import Outcome, Said
from .queue_feed import check_dead_letter
from .signature import Signature, signature_of


class Subscription:
    """A source of messages and the handler they go to; the same object as `@worker.subscriber` makes.

    Nothing connects while it is made; what cannot work is refused at once.

    Args:
        source: an `Inbox`, or some of its groups (`Inbox(..).group("crm")`); None: the worker's queue.
        handler: `async def` or a plain function (run in a thread), or an object that is called.  Its first parameter
            gets the payload, decoded to what it is annotated with; a second one the `Context`.
        group: of the queue: one group.  Without `group`, `groups` and `prefix`: every group.
        groups: of the queue: a list of groups.
        prefix: of the queue: all groups whose id begins so.
        min_priority: of the queue: only groups of this priority or a higher one.
        concurrency: how many messages are in work at once; None: the worker's.
        visibility: seconds of a lease; it is extended each half of it while the handler runs.  None: the worker's.
        batch: how many messages (of different groups) the handler gets as a list; None: one, by itself.
        max_attempts: after so many deliveries a message that fails is given up, together with `dead_letter`.
        dead_letter: where it goes: True, the queue's dead letters; a str, another group; an `Inbox`, a table with the
            same columns.
        backoff: how long the group waits after a failure: seconds, an `Exponential`, or a function of the attempt.
        on_error: `on_error(error, context)` returns the outcome of a failure, or None for the usual one.
        on_undecodable: the outcome of a payload that cannot be decoded; default: a dead letter where there is a cap,
            else tried again after one lease.
        decode: from raw text to what the handler gets, instead of what its annotation says.
        transactional: `ctx.publish` and `ctx.execute` collect what commits with the message's Ack.
        name: for logs, hooks and `pause`; the handler's name by default.

    Raises:
        ConfigError: what cannot work, and why.
    """

    def __init__(
        self,
        source: Any,
        handler: Callable[..., Said | Awaitable[Said]],
        *,
        group: str | None = None,
        groups: Any = None,
        prefix: str | None = None,
        min_priority: int = 0,
        concurrency: int | None = None,
        visibility: Seconds | None = None,
        batch: int | None = None,
        max_attempts: int | None = None,
        dead_letter: Any = None,
        backoff: Backoff | None = None,
        on_error: Callable[[BaseException, Any], Any] | None = None,
        on_undecodable: Outcome | None = None,
        decode: Callable[[str], Any] | None = None,
        transactional: bool = False,
        name: str | None = None,
    ) -> None:
        self.handler: Callable[..., Any] = handler
        self.name: str = checks.option_name(_name_of(handler) if name is None else name, "name")
        self.signature: Signature = signature_of(handler, self.name)
        self.source = source
        self.address: Address | None = self._address()
        self.selection: Selection = self._selected(group, groups, prefix)
        self.min_priority: int = self._checked_priority(min_priority)
        self.concurrency: int | None = None if concurrency is None else checks.option_count(concurrency, "concurrency")
        self.visibility: float | None = None if visibility is None else checks.option_seconds(visibility, "visibility")
        self.batch: int | None = None if batch is None else checks.option_count(batch, "batch")
        self.max_attempts: int | None = (
            None if max_attempts is None else checks.option_count(max_attempts, "max_attempts")
        )
        self.dead_letter: Any = None if dead_letter is False else dead_letter
        self.backoff = backoff
        self.pause_after: Callable[[int], float] = as_backoff(backoff)
        self.on_error = on_error
        self.on_undecodable = on_undecodable
        self.transactional = transactional
        self._check()
        self.decoder: Decoder | None = self._decoder(decode)

    def _address(self) -> Address | None:
        if self.source is None:
            return None
        try:
            return as_address(self.source)
        except TypeError:
            raise ConfigError(
                f"{self.name}: its source is an Inbox or one of its groups, not {type(self.source).__name__}; of the "
                "queue it is group=, groups= or prefix="
            ) from None

    def _selected(self, group: Any, groups: Any, prefix: Any) -> Selection:
        selection = Selection.of(group, groups, prefix)
        if self.source is not None and selection != Selection():
            raise ConfigError(
                f"{self.name}: group=, groups= and prefix= are of the queue; of an Inbox it is Inbox(..).group(..)"
            )
        return selection

    def _checked_priority(self, value: Any) -> int:
        try:
            number = checks.priority(value, "min_priority")
        except (TypeError, ValueError) as error:
            raise ConfigError(str(error)) from None
        if number and self.source is not None:
            raise ConfigError(f"{self.name}: min_priority= filters groups of the queue; a table has none")
        return number

    def _check(self) -> None:
        checks.option_callable(self.on_error, "on_error")
        if self.on_undecodable is not None and not isinstance(self.on_undecodable, Outcome):
            raise ConfigError(f"on_undecodable= is an Outcome, not {type(self.on_undecodable).__name__}")
        if self.signature.takes_list and self.batch is None:
            raise ConfigError(f"{self.name}: its first parameter is a list: say batch=, how many at most")
        if self.batch is not None and not self.signature.takes_list:
            raise ConfigError(f"{self.name}: batch={self.batch}: then its first parameter is a list[...]")
        if self.batch is not None and self.transactional:
            raise ConfigError(
                f"{self.name}: a batch with a transactional handler: what it writes would commit with some of its "
                "messages only; take batch= away, or write in the handler itself"
            )
        if self.max_attempts is not None and self.dead_letter is None:
            raise ConfigError(
                f"{self.name}: max_attempts={self.max_attempts} without dead_letter=: where do messages go that are "
                "given up?  dead_letter=True: the dead letters of the queue"
            )
        if self.dead_letter is not None and self.max_attempts is None:
            raise ConfigError(f"{self.name}: dead_letter= without max_attempts=: after how many deliveries?")
        inbox = self.inbox
        if inbox is None:
            check_dead_letter(self.dead_letter, self.selection)
            return
        if self.max_attempts is not None and not inbox.has("attempt"):
            raise ConfigError(
                f"{self.name}: max_attempts={self.max_attempts}, and table {inbox.table!r} has no attempt column to "
                "count in"
            )
        if self.dead_letter is True:
            raise ConfigError(
                f"{self.name}: the rows of table {inbox.table!r} are no messages of the queue: dead_letter= is another "
                "group of the table, or an Inbox with the same columns"
            )
        assert self.address is not None
        dead_letters_of(self.address, self.dead_letter)

    @property
    def inbox(self) -> Inbox | None:
        """The `Inbox` of its source, or None."""
        return None if self.address is None else self.address.inbox

    @property
    def fifo(self) -> bool:
        """Whether each group is worked in order: on the queue always."""
        inbox = self.inbox
        return True if inbox is None else bool(inbox.fifo)

    @property
    def roles(self) -> Mapping[str, str]:
        """Of an `Inbox`: from each role to its column; empty on the queue."""
        inbox = self.inbox
        return {} if inbox is None else dict(inbox.roles)

    def _decoder(self, decode: Callable[[str], Any] | None) -> Decoder | None:
        """From a message in work to what the handler gets; None: as the transport decodes."""
        checks.option_callable(decode, "decode")
        make = decode
        if make is None:
            try:
                make = decoder_of(self.signature.payload)
            except ConfigError as error:
                raise ConfigError(f"{self.name}: {error}") from None
        if make is None:
            return None
        decoder = make
        return lambda held: decoder(held.raw)

    @property
    def where(self) -> str:
        """Its source, for people."""
        return str(self.selection if self.address is None else self.address)

    def __repr__(self) -> str:
        return f"<Subscription {self.name!r} on {self.where}>"


def event_of(held: Lease[Any]) -> Any:
    """What a message holds, decoded as its transport does."""
    return held.event


def _name_of(handler: Any) -> str:
    while hasattr(handler, "func"):  # functools.partial
        handler = handler.func
    name = getattr(handler, "__qualname__", None) or type(handler).__qualname__
    return str(name).rpartition("<locals>.")[2]
