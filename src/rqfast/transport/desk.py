"""The desk of an async transport: what workers do with it beyond its public calls."""

from __future__ import annotations

import math
from asyncio import Future
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .._core import DEAD, GIVE_BACK, Bundle, Claim, ClaimFuture, Lease, Settle, Verdict
from ..api import Item
from ..sql import Statements
from ..sql.own import check_statements
from . import checks
from .operating import Question
from .tables import done_only

if TYPE_CHECKING:
    from .awaitable import AwaitableTransport

Reads = Callable[[list[str], list[list[Any]]], Awaitable[list[list[list[Any]]]]]


class Desk:
    """Of one async transport.

    Attributes:
        key: what tells its queue apart within a process.
        statements: those of its queue.
        now: the queue's time, as estimated here (float).
        call_soon: runs something on its loop, from any thread.
        read: plain reads: names and statements, to the rows of each.
        max_poll: its option of that name, in seconds.
        decode: from stored text to what it holds.
    """

    def __init__(self, transport: AwaitableTransport[Any], key: Hashable, read: Reads) -> None:
        self._transport = transport
        self.key = key
        self.read = read
        self.statements: Statements = transport._operating.statements
        self.now: Callable[[], float] = transport._operating.now
        self.call_soon: Callable[[Callable[[], object]], None] = transport._gather.call_soon
        self.max_poll: float = transport._options.max_poll
        self.decode: Callable[[Any], Any] = transport._options.decoder

    async def opened(self) -> None:
        """Wait until it is open: before, `now` has nothing to go by."""
        self._transport._gather.bind()
        await self._transport._gather.opened()

    # -- the queue ----------------------------------------------------------------------------------------

    def claim_among(
        self,
        only: tuple[str, str] | None,
        worker_id: str,
        visibility: float,
        limit: int,
        min_priority: int,
        *,
        waits: bool,
    ) -> ClaimFuture:
        """Claim the heads of up to `limit` groups among some (see `Claim.only`), as a list."""
        call = Claim(worker_id, visibility, min_priority, limit, True, False, only)
        return self._transport._claim(call, None, math.inf if waits else 0.0)

    def bury(self, lease: Lease[Any], reason: str, error: str | None) -> Future[None]:
        """`dead_letter` with the text of the error that led to it."""
        return self._transport._settle(Settle(lease, DEAD, checks.reason(reason), error))

    def give_back(self, lease: Lease[Any]) -> Future[None]:
        """Put a message back at its place, with no attempt spent."""
        return self._transport._settle(Settle(lease, GIVE_BACK))

    def twin(self) -> AwaitableTransport[Any]:
        """A second transport on the same queue, for another loop; closed before this one."""
        return self._transport._twin()

    # -- statements of the user's own -----------------------------------------------------------------------

    def on_table(
        self,
        own: list[tuple[str, str, list[Any]]],
        verdict: Verdict,
        publish: Iterable[Item] = (),
        with_statements: Iterable[Sequence[Any]] = (),
    ) -> Future[Any]:
        """Run one transaction on a table of the user's own, once; returns what `verdict` makes of its end.

        Args:
            own: (name, text, parameters) of each statement; the lane is the parameter before those.
        """
        transport = self._transport
        publishes = [transport._calls.item(item, position) for position, item in enumerate(publish)]
        statements = [transport._own_statement(one) for one in check_statements(with_statements)]
        bundle = Bundle([], publishes, statements, own, verdict)
        return transport._one(bundle, bundle)

    def run(self, statements: Iterable[Sequence[Any]]) -> Future[None]:
        """Run statements of the user's own in one transaction, once; each is [sql, *parameters]."""
        return self.on_table([], done_only(self.statements), with_statements=statements)

    def query(self, sql: str, *parameters: Any) -> Future[list[list[Any]]]:
        """The rows of one read of the user's own."""
        statement = self._transport._own_statement(check_statements([[sql, *parameters]], "query", written=False)[0])
        return self._transport._read(Question(["query"], [statement], lambda rows: rows[0]))
