"""Every error that rqfast raises.  Each says what happened, to what, and what to do; all can be pickled."""

from __future__ import annotations

from array import array
from typing import Any

__all__ = [
    "Closed",
    "ConfigError",
    "InvalidMessage",
    "LeaseLost",
    "OutOfOrder",
    "OutcomeUnknown",
    "PublishIncomplete",
    "RqfastError",
    "SchemaError",
    "StatementError",
    "Unavailable",
]


def _rebuild(kind: type[RqfastError], args: tuple[Any, ...], state: dict[str, Any]) -> RqfastError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class RqfastError(Exception):
    """The root of all errors of rqfast."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


class LeaseLost(RqfastError):
    """The lease no longer owns its message: the settlement was refused and changed nothing.

    It lapsed and the message was claimed again, an operator released it, it was settled before, or its token is not
    one of ours.

    Attributes:
        seq: the message's number (int); of a row of the user's own table its id (int or str).
        group_id: its group (str).
        table: the user's own table (str), or None.
    """

    def __init__(self, seq: int | str, group_id: str, doing: str = "settle", table: str | None = None) -> None:
        what = f"message {seq}" if table is None else f"row {seq!r} of table {table},"
        super().__init__(
            f"cannot {doing} {what} of group {group_id!r}: this lease no longer holds it (it lapsed and the message "
            "was claimed again, it was released by an operator, or it was already settled); nothing was changed, drop "
            "this result"
        )
        self.seq = seq
        self.group_id = group_id
        self.table = table


class OutOfOrder(RqfastError):
    """An acknowledgement of a run before that of an earlier message of the run: refused, nothing was changed.

    The lease stands: acknowledge (or dead-letter) what comes before it, then it.

    Attributes:
        seq: the message's number (int).
        group_id: its group (str).
    """

    def __init__(self, seq: int, group_id: str) -> None:
        super().__init__(
            f"cannot ack message {seq} of group {group_id!r} now: it belongs to a run, whose messages are acknowledged "
            f"in their order, and one before it is not settled yet; nothing was changed, the lease stands"
        )
        self.seq = seq
        self.group_id = group_id


class NotHeld(RqfastError):
    """A bundle was refused as a whole because an ack in it was lost.  Internal: callers get `LeaseLost`.

    Attributes:
        lost: the positions of the acks that were lost; None: all of them.  Empty: acks of a run were out of its order.
    """

    def __init__(self, lost: set[int] | None = None) -> None:
        super().__init__("a lease was lost")
        self.lost = lost


class Published(RqfastError):
    """A message with statements of the user's was refused as a whole, since its dedup id stands.  Internal.

    Attributes:
        seq: of the first publish, which the caller gets.
    """

    def __init__(self, seq: int = 0) -> None:
        super().__init__("published before")
        self.seq = seq


class Unavailable(RqfastError, ConnectionError):
    """No node answered with a leader in time, and nothing was applied: the call may simply be made again.

    Attributes:
        nodes: the addresses that were tried (tuple of str, without credentials).
    """

    def __init__(self, message: str, nodes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.nodes = nodes


class OutcomeUnknown(RqfastError, TimeoutError):
    """The time-out ended while it could not be told whether the call took effect.

    Publish again with the same `dedup_id`: then there is one message, whichever it was.  A claim is given back
    when its lease ends at the latest.  Never a subclass of `Unavailable`, so that a plain retry loop cannot
    publish twice.
    """


class StatementError(RqfastError, RuntimeError):
    """The database refused a statement.

    Attributes:
        text: what the server said (str).
        statement: the name of the statement, or which of the caller's own: `with_statements[0]` (str).
    """

    def __init__(self, message: str, text: str = "", statement: str = "") -> None:
        super().__init__(message)
        self.text = text
        self.statement = statement


class SchemaError(RqfastError):
    """The queue's tables are not there, not complete, or of a version that this rqfast does not know."""


class PublishIncomplete(RqfastError):
    """`publish_many` stopped half-way; the cause is chained.

    Attributes:
        seqs: the seqs of all that are certainly in, in order (array of 'q').
        index: the position of the first item that is not certainly in (int).
        unknown: how many items from there on may be in all the same (int).
    """

    def __init__(self, message: str, seqs: array[int], index: int, unknown: int) -> None:
        super().__init__(message)
        self.seqs = seqs
        self.index = index
        self.unknown = unknown


class Closed(RqfastError):
    """The transport was closed."""


class ConfigError(RqfastError, ValueError):
    """An option, a URL or a combination of them cannot work."""


class InvalidMessage(RqfastError, ValueError):
    """A value of a call was refused before anything was sent.

    Attributes:
        argument: which argument (str).
        item: the position of the item in `publish_many`, else None.
    """

    def __init__(self, message: str, argument: str = "", item: int | None = None) -> None:
        super().__init__(message)
        self.argument = argument
        self.item = item


class GarbledReply(RqfastError):
    """A reply that no server sends; inside rqfast only: it counts as no reply at all."""


for _name in __all__:
    globals()[_name].__module__ = "rqfast"
del _name
