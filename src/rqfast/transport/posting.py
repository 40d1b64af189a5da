"""A row on its way into a table of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import orjson

from .._core import MOST_EVENT, Bundle, make_publish
from ..address.inbox import Address, Inbox, as_address
from ..errors import ConfigError, InvalidMessage
from ..pipeline import wake
from ..sql import Statements
from ..sql.inbox import insert
from . import checks
from .tables import done_only, table_key

_SCALARS = (str, int, float, bool, type(None))


@dataclass(frozen=True, slots=True)
class Poster:
    """What a transport adds.

    Attributes:
        key: what tells its queue apart within a process.
        now: the queue's time, as estimated here.
        encode: the option of that name.
        own: from a statement to the form in which the engine takes it.
    """

    key: Hashable
    statements: Statements
    now: Callable[[], float]
    encode: Callable[[Any], str | bytes] | None
    own: Callable[[list[Any]], list[Any]]


@dataclass(frozen=True, slots=True)
class Posting:
    """A row that can be sent.

    Attributes:
        bundle: the call.
        table: what tells its table apart within a process.
        is_timed: whether a time was counted for it.
    """

    bundle: Bundle
    table: Hashable
    is_timed: bool

    def wake(self, done: Any = None) -> None:
        """Tell the subscriptions of this process, unless the call `done` failed."""
        if done is None or (not done.cancelled() and done.exception() is None):
            wake.stir(self.table)


def post(target: Any, value: Any, priority: Any, retry_after: Any, headers: Any, poster: Poster) -> Posting:
    """See `Transport.publish_to`."""
    address = as_address(target)
    inbox = address.inbox
    group = _group_of(address)
    _check_fillable(inbox)
    row = _values(inbox, group, priority, poster.now, retry_after, headers)
    # What is due at once has no retry time, as a row that another program inserts; where one must stand, it is the
    # queue's time of the commit.
    column = _due_now(inbox) if retry_after is None else None
    if column in inbox.iso_text:
        column = None
    if column is not None:
        row.pop(column, None)
    text = insert(inbox, poster.statements, list(row), inbox.roles["payload"], column)
    # Only to let the engine see to the blob; the lane is added later.
    text, *parameters = poster.own([text, _json(row), _payload(value, poster.encode)])
    bundle = Bundle([], [], [], [("inbox_publish", text, parameters)], done_only(poster.statements))
    is_timed = retry_after is not None or (column is None and _due_now(inbox) is not None)
    return Posting(bundle, table_key(poster.key, inbox.table), is_timed)


def _group_of(address: Address) -> str | None:
    if not address.inbox.has("group"):
        return None
    groups = address.selection.groups
    if groups is None or len(groups) != 1:
        raise ConfigError(f"publishing needs one group, and this is {address}: publish to inbox.group(name)")
    return groups[0]


def _check_fillable(inbox: Inbox) -> None:
    identity = inbox.roles["id"]
    if identity not in inbox.generated:
        raise ConfigError(
            f"table {inbox.table}: column {identity} (id) is not marked generated, and a row that is published has no "
            "value for it: Id(generated=True), or insert the row with SQL of your own"
        )
    for role in ("payload", "group"):
        if inbox.roles.get(role) in inbox.generated:
            raise ConfigError(f"table {inbox.table}: column {inbox.roles[role]} ({role}) cannot be generated")


def _left(inbox: Inbox, role: str) -> str | None:
    """The column of this role, where it is to be filled here."""
    column = inbox.roles.get(role)
    return None if column in inbox.generated else column


def _due_now(inbox: Inbox) -> str | None:
    """The column of the retry time, where a row that is due at once must have one."""
    column = _left(inbox, "retry_at")
    return column if column in inbox.not_null else None


def _values(
    inbox: Inbox, group: str | None, priority: Any, now: Callable[[], float], retry_after: Any, headers: Any
) -> dict[str, Any]:
    row = {column: _plain(inbox, column, value) for column, value in inbox.defaults.items()}
    if group is not None:
        row[inbox.roles["group"]] = group
    if priority is not None:
        row[_column(inbox, "priority", "priority")] = checks.integer(priority, "priority")
    elif (column := _left(inbox, "priority")) is not None:
        row[column] = 0
    if (column := _left(inbox, "attempt")) is not None:
        row[column] = 0
    if retry_after is not None:
        due = now() + checks.seconds(retry_after, "retry_after")
        column = _column(inbox, "retry_at", "retry_after")
        row[column] = iso_of(due) if column in inbox.iso_text else due
    elif (column := _due_now(inbox)) is not None:
        row[column] = iso_of(now()) if column in inbox.iso_text else now()
    row.update(_headers(inbox, headers))
    return row


def _column(inbox: Inbox, role: str, argument: str) -> str:
    column = inbox.roles.get(role)
    if column is None:
        raise InvalidMessage(f"{argument}=: table {inbox.table} has no column with the role {role}", argument)
    return column


def _headers(inbox: Inbox, headers: Any) -> dict[str, Any]:
    if checks.headers(headers) is None:
        return {}
    own, rest, row = inbox.header_columns, {}, {}
    for name, value in dict(headers).items():
        if name in own:
            row[own[name]] = value
        else:
            rest[name] = value
    if rest:
        if not inbox.has("headers"):
            name = next(iter(rest))
            raise InvalidMessage(
                f"header {name!r}: table {inbox.table} has no column for it, and none with the role headers", "headers"
            )
        row[inbox.roles["headers"]] = orjson.dumps(rest).decode()
    return row


def _plain(inbox: Inbox, column: str, value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if not isinstance(value, _SCALARS):
        raise ConfigError(
            f"table {inbox.table}: the default of column {column} is {type(value).__name__}, which no column can hold"
        )
    return value


def _payload(value: Any, encode: Callable[[Any], str | bytes] | None) -> str | bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        if len(data := bytes(value)) > MOST_EVENT:
            raise InvalidMessage(f"value has {len(data):,} bytes: {MOST_EVENT:,} at most", "value")
        return data
    return make_publish("-", value, 0, 0.0, 0, None, None, encode).text


def _json(row: Mapping[str, Any]) -> str:
    return orjson.dumps(list(row.values())).decode()


def iso_of(time: float) -> str:
    """A time as ISO 8601 UTC text, always of one length, so that text sorts as time does (str)."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
