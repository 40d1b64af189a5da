"""Moving over from the pure-Python transport, worker by worker, while messages keep coming.

    python examples/moving_over.py [URL]        URL: http://host:4001 for rqlite; by default a server for development

Two old workers and an old publisher are at work.  The first worker on rqfast upgrades the tables and joins them; the
old ones stop one after the other; the publisher is the last to change.  No message is lost or done twice, and every
group stays in order all the while.  docs/moving-over.md has the steps.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
import uuid
from collections import Counter, defaultdict
from typing import Any
from urllib.request import Request, urlopen

from rqfast import Context, Worker, connect_async
from rqfast.devserver import DevServer
from rqfast.worker.lifespan import serving

GROUPS = 8
EACH = 40  # messages in each of the stages


class OldTransport:
    """What the old programs use, as far as this example needs it: one HTTP request after another."""

    def __init__(self, url: str) -> None:
        self.url = url.partition(",")[0]
        self.send(
            "execute",
            "CREATE TABLE IF NOT EXISTS messages (seq INTEGER PRIMARY KEY AUTOINCREMENT, group_id TEXT NOT NULL, "
            "event TEXT NOT NULL, locked_by TEXT, lock_expiry REAL)",
        )
        self.send(
            "execute",
            'CREATE TABLE IF NOT EXISTS "groups" (group_id TEXT PRIMARY KEY, '
            "last_claimed_at REAL NOT NULL DEFAULT 0.0, priority INT NOT NULL DEFAULT 0)",
        )

    def send(self, path: str, sql: str, *parameters: Any) -> dict[str, Any]:
        """One statement."""
        body = json.dumps([[sql, *parameters]]).encode()
        with urlopen(Request(f"{self.url}/db/{path}", body, {"Content-Type": "application/json"}), timeout=10) as reply:
            result: dict[str, Any] = json.load(reply)["results"][0]
        if "error" in result:
            raise RuntimeError(result["error"])
        return result

    def publish(self, group_id: str, event: Any) -> None:
        """At the end of its group."""
        self.send("execute", "INSERT INTO messages (group_id, event) VALUES (?, ?)", group_id, json.dumps(event))
        self.send("execute", 'INSERT OR IGNORE INTO "groups" (group_id) VALUES (?)', group_id)

    def claim(self) -> tuple[int, str, Any] | None:
        """The first message of a group where none is in work."""
        token, now = f"old:{uuid.uuid4().hex}", time.time()
        taken = self.send(
            "execute",
            "UPDATE messages SET locked_by = ?1, lock_expiry = ?2 WHERE seq = ("
            'SELECT m.seq FROM messages m JOIN "groups" g ON g.group_id = m.group_id '
            "WHERE (m.locked_by IS NULL OR m.lock_expiry < ?3) AND m.group_id NOT IN "
            "(SELECT group_id FROM messages WHERE locked_by IS NOT NULL AND lock_expiry >= ?3) "
            "ORDER BY g.last_claimed_at, m.seq LIMIT 1)",
            token,
            now + 30,
            now,
        )
        if not taken.get("rows_affected"):
            return None
        rows = self.send("query?level=strong", "SELECT seq, group_id, event FROM messages WHERE locked_by = ?", token)
        seq, group_id, event = rows["values"][0]
        self.send("execute", 'UPDATE "groups" SET last_claimed_at = ? WHERE group_id = ?', now, group_id)
        return seq, group_id, json.loads(event)

    def ack(self, seq: int) -> None:
        """Done."""
        self.send("execute", "DELETE FROM messages WHERE seq = ?", seq)


class Journal:
    """Who did what, in which order."""

    def __init__(self) -> None:
        self.by: Counter[str] = Counter()
        self.numbers: dict[str, list[int]] = defaultdict(list)

    def done(self, who: str, group_id: str, number: int) -> None:
        """One message."""
        self.by[who] += 1
        self.numbers[group_id].append(number)


async def old_worker(url: str, name: str, journal: Journal) -> None:
    """The loop of an old worker, until it is cancelled; each call in a thread."""
    old = await asyncio.to_thread(OldTransport, url)
    ending = False
    while not ending:
        try:
            found = await asyncio.shield(job := asyncio.ensure_future(asyncio.to_thread(old.claim)))
        except asyncio.CancelledError:
            found, ending = await job, True  # what it has claimed it still does
        if found is not None:
            seq, group_id, number = found
            journal.done(name, group_id, number)
            await asyncio.to_thread(old.ack, seq)


async def main(url: str) -> None:
    """The stages, one after another."""
    journal = Journal()
    old = OldTransport(url)
    numbers = iter(range(10**6))

    async def publish_old() -> None:
        for _ in range(EACH):
            number = next(numbers)
            await asyncio.to_thread(old.publish, f"account-{number % GROUPS}", number)

    # 1. As it was.
    workers = [asyncio.ensure_future(old_worker(url, f"old {n}", journal)) for n in (1, 2)]
    await publish_old()
    print(f"old workers alone: {sum(journal.by.values())} done")

    # 2. The first worker on rqfast: opening upgrades the tables, and the old ones notice nothing.
    worker = Worker(url, name="new", max_poll=0.05)

    @worker.subscriber()
    async def handle(number: int, ctx: Context) -> None:
        journal.done("new", ctx.group, number)

    async with serving(worker):
        await publish_old()
        # 3. The old workers go, one by one; each ends what it has claimed.
        for position, old_one in enumerate(workers, 1):
            old_one.cancel()
            await asyncio.wait((old_one,))
            await publish_old()
            print(f"old worker {position} is gone: {sum(journal.by.values())} done")
        # 4. Publishers last: `delay`, `rank`, `dedup_id` and the rest are theirs from now on.
        async with connect_async(url) as queue:
            for _ in range(EACH):
                number = next(numbers)
                await queue.publish(f"account-{number % GROUPS}", number)
            while (await queue.stats()).messages:
                await asyncio.sleep(0.05)
    # 5. When the last old process is gone: rqfast schema finish --url URL

    in_order = sum(done == sorted(done) for done in journal.numbers.values())
    once = sorted(number for done in journal.numbers.values() for number in done) == list(range(5 * EACH))
    print(f"{sum(journal.by.values())} messages, each once: {once}; {in_order} groups in order")
    print("all three took part:", sorted(journal.by) == ["new", "old 1", "old 2"])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        # The old transport speaks HTTP only.
        with tempfile.TemporaryDirectory() as folder, DevServer(f"{folder}/queue.db") as server:
            asyncio.run(main(server.url))
