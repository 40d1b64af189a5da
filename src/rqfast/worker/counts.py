"""What a worker has done."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class Counts:
    """How messages ended, as `run()` returns it; also `worker.counts` while it runs.

    Attributes:
        claimed: messages that were handed to a handler.
        acked: outcomes `Ack` (or None) that took effect.
        retried: `Retry` and `RetryAfter`, failures included.
        dropped: `Drop`.
        dead: given up: `Dead`, the retry cap, or a payload that could not be decoded.
        failed: exceptions that handlers raised.
        lost: outcomes that were refused because the lease was lost.
        discarded: outcomes that came after the message was given back, and were thrown away.
        given_back: messages that were given back with no attempt spent (stopping).
        extended: extensions of leases.
    """

    claimed: int = 0
    acked: int = 0
    retried: int = 0
    dropped: int = 0
    dead: int = 0
    failed: int = 0
    lost: int = 0
    discarded: int = 0
    given_back: int = 0
    extended: int = 0

    def __iadd__(self, other: Counts) -> Counts:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))
        return self
