"""The operating calls of the blocking transports, once for both engines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from .._core import Call
from ..model import DeadLetter, GroupInfo, Stats, StoredMessage
from .operating import Operating, Question, R, Rows

T = TypeVar("T")


class BlockingOperating(Generic[T]):
    """In terms of one call, and of one question to the database."""

    _operating: Operating

    def _one(self, call: Call) -> Any:
        raise NotImplementedError

    def _ask(self, question: Question[Any]) -> list[Rows]:
        raise NotImplementedError

    def _read(self, question: Question[R]) -> R:
        return question.answer(self._ask(question))

    def stats(self) -> Stats:
        """See `Transport.stats`."""
        return self._read(self._operating.stats())

    def groups(
        self,
        *,
        state: str | None = None,
        order: str = "oldest",
        limit: int = 100,
        after: GroupInfo | str | None = None,
    ) -> list[GroupInfo]:
        """See `Transport.groups`."""
        return self._read(self._operating.groups(state, order, limit, after))

    def queues(self) -> list[str]:
        """See `Transport.queues`."""
        return self._read(self._operating.queues())

    def peek(self, group_id: str, limit: int = 10) -> list[StoredMessage[T]]:
        """See `Transport.peek`."""
        return self._read(self._operating.peek(group_id, limit))

    def delete(self, seq: int) -> bool:
        """See `Transport.delete`."""
        was_there: bool = self._one(self._operating.delete(seq))
        return was_there

    def release(self, group_id: str) -> bool:
        """See `Transport.release`."""
        was_held: bool = self._one(self._operating.release(group_id))
        return was_held

    def pause(self, group_id: str | None = None) -> None:
        """See `Transport.pause`."""
        self._one(self._operating.pause(group_id))

    def resume(self, group_id: str | None = None) -> None:
        """See `Transport.resume`."""
        self._one(self._operating.resume(group_id))

    def purge(self, group_id: str | None = None, *, everything: bool = False) -> int:
        """See `Transport.purge`."""
        count: int = self._one(self._operating.purge(group_id, everything))
        return count

    def dead_letters(self, group_id: str | None = None, *, limit: int = 100, after: int = 0) -> list[DeadLetter[T]]:
        """See `Transport.dead_letters`."""
        return self._read(self._operating.dead_letters(group_id, limit, after))

    def redrive(
        self, group_id: str | None = None, *, seqs: Iterable[int] | None = None, limit: int | None = None
    ) -> int:
        """See `Transport.redrive`."""
        count: int = self._one(self._operating.redrive(group_id, seqs, limit))
        return count

    def drop_dead_letters(self, seqs: Iterable[int]) -> int:
        """See `Transport.drop_dead_letters`."""
        count: int = self._one(self._operating.drop_dead_letters(seqs))
        return count
