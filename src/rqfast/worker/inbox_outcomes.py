"""What an outcome does to a row of a table, by the columns that the table has."""

from __future__ import annotations

import logging

from ..address.inbox import Inbox
from ..errors import ConfigError
from ..sql.inbox import DEAD, DONE, FREE, LATER, PARK
from .errortext import one_line
from .inbox_program import Settlement
from .inbox_row import Row
from .outcomes import Ack, Dead, Drop, Outcome, Retry, RetryAfter

log: logging.Logger = logging.getLogger("rqfast")


class RowOutcomes:
    """Makes settlements of outcomes; says once what a table cannot do.

    Args:
        dead: where dead letters go: a group, a table, or nowhere.
    """

    def __init__(self, inbox: Inbox, dead: tuple[str | None, Inbox | None]) -> None:
        self._inbox = inbox
        self._dead = dead
        self._warned: set[str] = set()

    def settlement(self, row: Row, outcome: Outcome) -> Settlement:
        """Of an outcome other than `Dead`."""
        if isinstance(outcome, Ack):
            return Settlement(row, DONE, publish=outcome.publish, with_statements=outcome.with_statements)
        if isinstance(outcome, Drop):
            return Settlement(row, DONE)
        if isinstance(outcome, RetryAfter):
            return self._later(row, outcome.delay, "RetryAfter")
        if isinstance(outcome, Retry):
            if self._inbox.exclusive:
                # Nobody waits for it: it goes behind those that are due.
                return self._later(row, outcome.delay, "Retry(delay=)")
            if outcome.delay:
                return Settlement(row, PARK, outcome.delay)
            return Settlement(row, FREE)
        if isinstance(outcome, Dead):
            raise ConfigError("Dead is not settled but buried, with its reason")
        raise TypeError(f"an Outcome, not {type(outcome).__name__}")

    def _later(self, row: Row, delay: float, what: str) -> Settlement:
        if self._inbox.has("retry_at"):
            return Settlement(row, LATER, delay)
        if delay and what not in self._warned:
            self._warned.add(what)
            log.warning(
                "table %s has no column with the role retry_at: %s lets a row go again at once", self._inbox.table, what
            )
        return Settlement(row, FREE)

    def buried(self, row: Row, reason: str, error: str | None) -> Settlement:
        """To where dead letters go; without such a place the row is dropped, and logged."""
        if self._dead == (None, None):
            log.error(
                "table %s: row %r of group %r is dropped, for there is no dead_letter=: %s (%s)",
                self._inbox.table,
                row.id,
                row.group_id,
                one_line(reason),
                None if error is None else one_line(error),
            )
            return Settlement(row, DONE)
        return Settlement(row, DEAD, told=(_sound(reason), None if error is None else _sound(error)))


def _sound(text: str) -> str:
    """Text that can be stored, whatever an error was made of."""
    return text.encode("utf-8", "replace").decode()[:4000]
