"""What a subscription needs of the place its messages come from: the queue, or a table of the user's own."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..model import Header
from ..transport.awaitable import AwaitableTransport
from .outcomes import Outcome


class Held(Protocol):
    """A message in work; a `Lease` is one."""

    @property
    def seq(self) -> Any:
        """Its number, or the id of its row."""

    @property
    def group_id(self) -> str:
        """Its group."""

    @property
    def attempts(self) -> int:
        """How often it was claimed."""

    @property
    def headers(self) -> Mapping[str, Header]:
        """What travels with it."""

    @property
    def raw(self) -> Any:
        """Its payload, as it is stored."""

    @property
    def fence(self) -> int:
        """Rises with every claim."""

    @property
    def expires_at(self) -> float:
        """When its lease ends, on the queue's clock."""

    def remaining(self) -> float:
        """Seconds left of its lease."""


class Feed(Protocol):
    """Claims messages and settles them.  All futures belong to the loop of its transport."""

    async def check(self) -> None:
        """Find out at the start what would fail later.

        Raises:
            SchemaError: a table or a column is missing; it names both.
        """

    def claim(self, limit: int) -> Future[Any]:
        """Wait until there is something, and claim up to `limit` of it: a list, or one of it, or None.

        Cancelled, also after it came, it gives back what it claimed.
        """

    def claim_next(self, limit: int) -> Future[Any]:
        """The same without waiting: it goes in one request with what is settled in the same turn of the loop."""

    def settle(self, held: Any, outcome: Outcome) -> Future[Any]:
        """Let an outcome other than `Dead` take effect.

        Raises:
            LeaseLost: nothing was changed.
            StatementError: one of the statements of an `Ack` failed; nothing was changed.
        """

    def bury(self, held: Any, reason: str, error: str | None) -> Future[Any]:
        """To where dead letters go."""

    def give_back(self, held: Any) -> Future[Any]:
        """Put it back at its place, with no attempt spent."""

    def extend(self, held: Sequence[Any], visibility: float) -> Future[list[Any]]:
        """Let all their leases end `visibility` seconds from now; returns those that were lost."""

    async def quiet(self) -> None:
        """Wait until nothing is on its way, so that what came for nobody has been given back."""

    def twin(self, transport: AwaitableTransport[Any]) -> Feed:
        """The same over another transport, on another loop: it extends what this one claimed."""
