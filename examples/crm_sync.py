"""Changes go to a CRM in the order in which they were made, from a table that any program fills.

    python examples/crm_sync.py [URL]        URL: http://host:4001 for rqlite; by default a file in a temporary folder

The CRM does not answer the first time: what comes behind waits, and the order holds.  One change is refused each time:
after three deliveries it goes to a table of dead letters, and the group moves on.
"""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass
from typing import Annotated, Any

from rqfast import (
    Ack,
    Attempt,
    Context,
    Group,
    Headers,
    Id,
    Inbox,
    LockedUntil,
    Outcome,
    Payload,
    Retry,
    Worker,
)

COLUMNS = "id INTEGER PRIMARY KEY, target TEXT NOT NULL, attempt INT, locked_until REAL, payload BLOB, headers TEXT"


@dataclass
class SyncChange:
    """One row of the table: which column is what.  Each group is one system that changes go to."""

    id: Annotated[int, Id(generated=True)]
    target: Annotated[str, Group(fifo=True)]
    attempt: Annotated[int, Attempt(generated=True)]
    locked_until: Annotated[float | None, LockedUntil]
    payload: Annotated[bytes, Payload]
    headers: Annotated[str | None, Headers]


@dataclass
class Change:
    """What a payload is decoded to."""

    customer: int
    city: str


# Nothing connects here; the URL is that of RQFAST_URL, which is read when the worker runs.
worker = Worker(name="crm-sync", version="0.1.0", visibility=30, max_poll=0.1)
crm = Inbox(SyncChange, table="sync_jobs").group("crm")
given_up = Inbox(SyncChange, table="sync_jobs_dead")


@worker.on_startup
async def schema(db: Any) -> None:
    """Tables, an index for the claims, and changes: by plain SQL, as any other program would insert them."""
    await db.execute(f"CREATE TABLE IF NOT EXISTS sync_jobs({COLUMNS})")
    await db.execute(f"CREATE TABLE IF NOT EXISTS sync_jobs_dead({COLUMNS})")
    await db.execute("CREATE INDEX IF NOT EXISTS sync_jobs_claim ON sync_jobs(target, id)")
    await db.execute(
        "CREATE INDEX IF NOT EXISTS sync_jobs_lease ON sync_jobs(target, locked_until) WHERE locked_until IS NOT NULL"
    )
    for customer, city in enumerate(["Lyon", "Oslo", "", "Rome", "Bern"], 1):
        payload = f'{{"customer": {customer}, "city": "{city}"}}'
        await db.execute("INSERT INTO sync_jobs(target, payload) VALUES('crm', ?)", payload)


@worker.subscriber(crm, max_attempts=3, dead_letter=given_up, backoff=0.1)
async def sync(change: Change, ctx: Context) -> Outcome:
    """One change at a time, in order; an exception counts as a failure and is tried again after `backoff`."""
    if not await push(change, ctx.attempt):
        print(f"{change.customer} timed out")
        return Retry(delay=0.2)  # it keeps its place at the head, and the group waits
    print(f"{change.customer} {change.city} arrived at attempt {ctx.attempt}")
    if change.customer == 5:
        worker.stop()  # a service would go on; a plain call, from anywhere
    return Ack()


@worker.on_shutdown
async def show_dead_letters(db: Any) -> None:
    """A dead letter is a row like any other, with the reason in its headers."""
    for payload, reason in await db.query(
        "SELECT CAST(payload AS TEXT), headers ->> 'dead_reason' FROM sync_jobs_dead ORDER BY id DESC LIMIT 1"
    ):
        print(f"given up: {payload}: {reason}")


async def push(change: Change, attempt: int) -> bool:
    """The CRM: it is slow at first, and wants a city."""
    if not change.city:
        raise ValueError("a customer lives somewhere")
    return change.customer != 1 or attempt > 1


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RQFAST_URL"] = sys.argv[1] if len(sys.argv) > 1 else f"{folder}/crm.db"
        counts = worker.run()
    print(f"{counts.acked} changes arrived, {counts.dead} given up, {counts.failed} failures")
