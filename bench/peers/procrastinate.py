"""procrastinate on PostgreSQL: jobs with `lock=` run one at a time and in order for each lock, which is a group."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from .peer import Message, Peer


class Procrastinate(Peer):
    """A worker of concurrency 1, and one of 64 for batches: it takes its jobs one by one in any case."""

    name = "procrastinate (PostgreSQL)"
    package = "procrastinate"
    order = "group"
    cannot = "no claim of many: 64 jobs run side by side instead"
    needs = "postgres"
    batches_work = False

    def __init__(self, folder: Path, synchronous: str, server: str) -> None:
        import psycopg
        from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

        logging.getLogger("procrastinate").setLevel(logging.WARNING)
        with psycopg.connect(f"{server} dbname=postgres", autocommit=True) as admin:
            admin.execute(f'CREATE DATABASE "{folder.name}"'.encode())
        address = f"{server} dbname={folder.name}"
        self._done: list[Message] = []
        self._app = App(connector=SyncPsycopgConnector(conninfo=address))
        self._worker = App(connector=PsycopgConnector(conninfo=address, min_size=2, max_size=64))
        self._task = self._app.task(name="bench")(self._take)
        self._worker.task(name="bench")(self._take)
        self._app.open()
        self._app.schema_manager.apply_schema()

    async def _take(self, group: str, number: int, text: str) -> None:
        self._done.append(Message(group, number))

    @classmethod
    def durable(cls, synchronous: str) -> str:
        return "PostgreSQL, fsync and synchronous_commit on"

    def publish(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._task.configure(lock=message.group).defer(**message.event)

    def publish_batch(self, messages: list[Message]) -> None:
        jobs = [self._task.configure(lock=message.group).make_new_job(**message.event) for message in messages]
        self._app.job_manager.batch_defer_jobs(jobs)

    def work(self, count: int) -> Iterator[Message]:
        return self._run_worker(1)

    def work_batches(self, count: int, size: int) -> Iterator[Message]:
        return self._run_worker(size)

    def _run_worker(self, concurrency: int) -> Iterator[Message]:
        async def run() -> None:
            async with self._worker.open_async():
                await self._worker.run_worker_async(
                    concurrency=concurrency,
                    wait=False,
                    listen_notify=False,
                    install_signal_handlers=False,
                    delete_jobs="always",
                )

        self._done.clear()
        asyncio.run(run())
        return iter(self._done)

    def close(self) -> None:
        self._app.close()
