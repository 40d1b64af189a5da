"""The operating calls of the async transports, once for both engines."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from .._core import Call
from ..model import DeadLetter, GroupInfo, Stats, StoredMessage
from ..pipeline.gather import Gather
from .operating import Operating, Question, R, Rows

T = TypeVar("T")


class AwaitableOperating(Generic[T]):
    """In terms of one call, and of one question to the database."""

    _gather: Gather
    _operating: Operating

    def _one(self, call: Call) -> Future[Any]:
        raise NotImplementedError

    async def _ask(self, question: Question[Any]) -> list[Rows]:
        raise NotImplementedError

    def _read(self, question: Question[R]) -> Future[R]:
        return self._gather.bind().create_task(self._answer(question))

    async def _answer(self, question: Question[R]) -> R:
        return question.answer(await self._gather.reading(self._ask(question)))

    def stats(self) -> Future[Stats]:
        """See `Transport.stats`."""
        return self._read(self._operating.stats())

    def groups(
        self,
        *,
        state: str | None = None,
        order: str = "oldest",
        limit: int = 100,
        after: GroupInfo | str | None = None,
    ) -> Future[list[GroupInfo]]:
        """See `Transport.groups`."""
        return self._read(self._operating.groups(state, order, limit, after))

    def queues(self) -> Future[list[str]]:
        """See `Transport.queues`."""
        return self._read(self._operating.queues())

    def peek(self, group_id: str, limit: int = 10) -> Future[list[StoredMessage[T]]]:
        """See `Transport.peek`."""
        return self._read(self._operating.peek(group_id, limit))

    def delete(self, seq: int) -> Future[bool]:
        """See `Transport.delete`."""
        return self._one(self._operating.delete(seq))

    def release(self, group_id: str) -> Future[bool]:
        """See `Transport.release`."""
        return self._one(self._operating.release(group_id))

    def pause(self, group_id: str | None = None) -> Future[None]:
        """See `Transport.pause`."""
        return self._one(self._operating.pause(group_id))

    def resume(self, group_id: str | None = None) -> Future[None]:
        """See `Transport.resume`."""
        return self._one(self._operating.resume(group_id))

    def purge(self, group_id: str | None = None, *, everything: bool = False) -> Future[int]:
        """See `Transport.purge`."""
        return self._one(self._operating.purge(group_id, everything))

    def dead_letters(
        self, group_id: str | None = None, *, limit: int = 100, after: int = 0
    ) -> Future[list[DeadLetter[T]]]:
        """See `Transport.dead_letters`."""
        return self._read(self._operating.dead_letters(group_id, limit, after))

    def redrive(
        self, group_id: str | None = None, *, seqs: Iterable[int] | None = None, limit: int | None = None
    ) -> Future[int]:
        """See `Transport.redrive`."""
        return self._one(self._operating.redrive(group_id, seqs, limit))

    def drop_dead_letters(self, seqs: Iterable[int]) -> Future[int]:
        """See `Transport.drop_dead_letters`."""
        return self._one(self._operating.drop_dead_letters(seqs))
