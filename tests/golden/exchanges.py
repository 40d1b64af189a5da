"""Recorded exchanges with real servers: requests, and what came back.  One file for each version, in this order."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.devserver import Reply

FILES = {"8": "rqlite-v8.43.4.jsonl", "10": "rqlite-v10.2.7.jsonl"}
IMITATED = "10"
# What the dev server refuses; docs/dev-server.md has the same list.
UNSUPPORTED = {"root path"}

# Fields that are different in each run; of these only the kind is compared.
_VARIABLE = {"time", "time_s", "sequence_number", "raft_index", "id", "api_addr", "addr"}
# They have such fields; a file's own notes name all but the last.
_VARIABLE_IN = {
    "query with timings",
    "queued write",
    "nodes ver 2",
    "nodes ver 1",
    "raft index",
    "leader address",
}


class Exchange(NamedTuple):
    """A request and the reply of a real server."""

    name: str
    method: str
    path: str
    body: bytes | None
    reply: Reply

    @property
    def headers(self) -> dict[str, str]:
        """The request's headers."""
        bare = self.body is None or self.name == "no content type"
        return {} if bare else {"Content-Type": "application/json"}


class Number(str):
    """A number as it was written: 1, 1.0 and 1e0 are three."""

    __slots__ = ()


@cache
def exchanges(version: str) -> dict[str, Exchange]:
    """The exchanges with one version, by name, in the order in which they were made."""
    found = {}
    for line in Path(__file__).with_name(FILES[version]).read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        body = None if one["body"] is None else one["body"].encode()
        reply = Reply(one["status"], one["content_type"], one["reply"], {})
        found[one["name"]] = Exchange(one["name"], one["method"], one["path"], body, reply)
    return found


def replay(version: str, ask: Callable[[Exchange], Reply]) -> dict[str, Reply]:
    """Make all exchanges again, one after the other; the replies by name."""
    return {name: ask(exchange) for name, exchange in exchanges(version).items()}


def fields(name: str, reply: Reply) -> tuple[int, str | None, object]:
    """What of a reply must be equal: status, content type, and each field with its place and its way of writing."""
    if not (reply.content_type or "").startswith("application/json") or not reply.body:
        return reply.status, reply.content_type, reply.body
    # As pairs: the order of the fields counts as well.
    body = json.loads(reply.body, object_pairs_hook=list, parse_int=Number, parse_float=Number)
    if name in _VARIABLE_IN:
        body = _steady(body)
    if name == "nodes ver 1":
        body = [["(its id)", value] for _, value in body]
    return reply.status, reply.content_type, body


def _steady(value: Any) -> Any:
    if isinstance(value, tuple):
        name, inner = value
        return (name, type(inner).__name__ if name in _VARIABLE else _steady(inner))
    return [_steady(item) for item in value] if isinstance(value, list) else value
