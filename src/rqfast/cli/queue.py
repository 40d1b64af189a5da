"""The options by which commands find a queue, and how they open it."""

from __future__ import annotations

import os
from typing import Annotated, Any, TypeAlias

import typer

from ..api import Transport
from ..connect import RQLITE_SCHEMES, URL_VARIABLE, connect

# How long a person waits for a cluster with a leader, in seconds.
PATIENCE = 5

Url: TypeAlias = Annotated[
    str | None,
    typer.Option(help=f"Database: http://host:4001 for rqlite, or a file. By default that of {URL_VARIABLE}."),
]
Queue: TypeAlias = Annotated[str | None, typer.Option(help="Name of the queue. By default the one without a name.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="For programs: JSON, one object a line.")]


def open_queue(url: str | None, queue: str | None, *, create: bool = False) -> Transport[Any]:
    """Open a queue; one that is not there is made only with `create`."""
    url = url or os.environ.get(URL_VARIABLE)
    patience: dict[str, Any] = {}
    if url and "://" in url and url.partition("://")[0].lower() in RQLITE_SCHEMES:
        patience = {"connect_retries": PATIENCE}
    return connect(url, queue=queue, create=create, **patience)
