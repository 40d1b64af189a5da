"""A message in work, as both colours hand it out."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from .event import Event


@dataclass
class Lease:
    """What was claimed, and under which token."""

    seq: int
    group_id: str
    event: Event
    token: str


def new_token(worker_id: str) -> str:
    """What a claim writes into the message that it takes."""
    return f"{worker_id}:{uuid.uuid4().hex}"


def lease_of(rows: list[list[Any]], token: str) -> Lease | None:
    """The lease of the message that holds the token; None when it is gone already."""
    if not rows:
        return None
    seq, group_id, event = rows[0]
    return Lease(seq, group_id, Event.model_validate_json(event), token)
