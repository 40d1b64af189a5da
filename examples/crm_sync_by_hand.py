"""crm_sync.py by hand: no class for the rows, no decorators, a handler that is an object with a state of its own.

    python examples/crm_sync_by_hand.py [URL]        URL: http://host:4001 for rqlite; by default a temporary file

Both forms make the same objects.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

from rqfast import Column, Context, Inbox, Retry, Subscription, Worker

COLUMNS = "id INTEGER PRIMARY KEY, target TEXT NOT NULL, attempt INT, locked_until REAL, payload BLOB, headers TEXT"
ROLES: dict[str, Any] = {
    "id": Column("id", generated=True),
    "fifo_group": "target",
    "attempt": Column("attempt", generated=True),
    "locked_until": "locked_until",
    "payload": "payload",
    "headers": "headers",
}


class CrmSync:
    """The handler: called with each change, in order."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.cities: dict[int, str] = {}

    async def __call__(self, change: dict[str, Any], ctx: Context) -> None:
        customer, city = change["customer"], change["city"]
        if not city:
            raise ValueError("a customer lives somewhere")
        if customer == 1 and ctx.attempt == 1:
            raise Retry(delay=0.2)  # an outcome may be raised as well as returned
        self.cities[customer] = city
        if customer == 5:
            self.worker.stop()


async def schema(db: Any) -> None:
    """Tables, and an index for the claims."""
    for table in ("sync_jobs", "sync_jobs_dead"):
        await db.execute(f"CREATE TABLE IF NOT EXISTS {table}({COLUMNS})")
        await db.execute(f"CREATE INDEX IF NOT EXISTS {table}_claim ON {table}(target, id)")
        await db.execute(
            f"CREATE INDEX IF NOT EXISTS {table}_lease ON {table}(target, locked_until) WHERE locked_until IS NOT NULL"
        )


def main(url: str) -> None:
    """Describe, run, tell."""
    worker = Worker(url, name="crm-sync", visibility=30, max_poll=0.1)
    jobs = Inbox.describe("sync_jobs", **ROLES)
    handler = CrmSync(worker)
    crm = worker.add(
        Subscription(
            jobs.group("crm"),
            handler,
            name="crm",
            max_attempts=3,
            dead_letter=Inbox.describe("sync_jobs_dead", **ROLES),
            backoff=0.1,
        )
    )
    print(crm.name, "fifo" if crm.fifo else "", dict(crm.roles))  # what was declared can be seen

    async def changes(db: Any) -> None:
        for customer, city in enumerate(["Lyon", "Oslo", "", "Rome", "Bern"], 1):
            payload = f'{{"customer": {customer}, "city": "{city}"}}'
            await db.execute("INSERT INTO sync_jobs(target, payload) VALUES('crm', ?)", payload)

    worker.on_startup(schema)
    worker.on_startup(changes)
    counts = worker.run()
    print(f"in order: {handler.cities}; {counts.dead} given up")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1] if len(sys.argv) > 1 else f"{folder}/crm.db")
