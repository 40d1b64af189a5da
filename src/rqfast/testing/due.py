"""When rows of a table of the user's own may go."""

from __future__ import annotations

from datetime import datetime

from ..address.inbox import Inbox
from ..sql.names import quote
from ..transport.posting import iso_of
from ..worker.database import Database


async def next_due(inbox: Inbox, database: Database, now: float) -> float | None:
    """When the next lease, parking or delay of its rows ends, on the queue's clock; None: none does."""
    moments: list[float] = []
    for role in ("locked_until", "retry_at"):
        column = inbox.roles.get(role)
        if column is None:
            continue
        at = iso_of(now) if column in inbox.iso_text else now
        sql = f"SELECT min({quote(column)}) FROM {quote(inbox.table)} WHERE {quote(column)}>=?"
        (found,) = (await database.query(sql, at))[0]
        if found is not None:
            moments.append(datetime.fromisoformat(found).timestamp() if isinstance(found, str) else float(found))
    return min(moments, default=None)
