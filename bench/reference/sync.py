"""The transport on `requests`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Self

import requests
from requests.adapters import HTTPAdapter

from . import statements, wire
from .event import Event
from .lease import Lease, lease_of, new_token


class RqliteTransport:
    """One HTTP request after another; may be shared by threads."""

    def __init__(self, base_url: str, timeout: float = 10.0, clock: Callable[[], float] = time.time) -> None:
        self._base_url = base_url.rstrip("/")
        self._timeout = timeout
        self._clock = clock
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.mount(self._base_url, HTTPAdapter(pool_connections=1, pool_maxsize=wire.POOL))
        try:
            self._execute(statements.TABLES)
        except BaseException:
            self.close()
            raise

    @classmethod
    def from_url(cls, url: str, connect_retries: int = 30, retry_delay: float = 1.0) -> Self:
        """The same, once the node is up and has a leader."""
        for _ in range(connect_retries - 1):
            try:
                return cls(url)
            except (requests.RequestException, RuntimeError):
                time.sleep(retry_delay)
        return cls(url)

    def publish(self, group_id: str, event: Event, priority: int = 0) -> None:
        """Put a message at the end of its group."""
        self._execute(statements.publish(group_id, event.model_dump_json(), priority), wire.TRANSACTION)

    def claim(self, worker_id: str, visibility: float, min_priority: int = 0) -> Lease | None:
        """Take a message for `visibility` seconds; None when there is none."""
        token, now = new_token(worker_id), self._clock()
        taken = self._execute([statements.claim(token, now, visibility, min_priority)])
        if not taken[0].get("rows_affected"):
            return None
        lease = lease_of(self._query(statements.claimed(token)), token)
        if lease is not None:
            self._execute([statements.served(lease.group_id, now)])
        return lease

    def ack(self, lease: Lease) -> None:
        """The message is done."""
        self._execute(statements.ack(lease), wire.TRANSACTION)

    def nack(self, lease: Lease, delay: float = 0) -> None:
        """The message is not done: give it back, at once or after `delay` seconds."""
        self._execute([statements.nack(lease, delay, self._clock())])

    def close(self) -> None:
        """Close the session."""
        self._session.close()

    def _execute(self, batch: list[statements.Statement], path: str = wire.EXECUTE) -> list[dict[str, Any]]:
        return wire.results_of(self._post(path, batch))

    def _query(self, statement: statements.Statement) -> list[list[Any]]:
        return wire.rows_of(self._post(wire.QUERY, [statement]))

    def _post(self, path: str, batch: list[statements.Statement]) -> dict[str, Any]:
        reply = self._session.post(self._base_url + path, json=batch, timeout=self._timeout)
        reply.raise_for_status()
        body: dict[str, Any] = reply.json()
        return body
