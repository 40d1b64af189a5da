"""What a subscription says of handlers that go on though their leases are lost: each holds a place until it ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from .away import OFTEN

if TYPE_CHECKING:
    from .context import Context

log: logging.Logger = logging.getLogger("rqfast.worker")

# So many groups are named in a line at most.
NAMED = 5


class Hanging:
    """Warns of them.  Its methods may be called from any thread.

    Args:
        name: of the subscription.
        places: how many it has.
        active: the messages in work, all of them.
        now: seconds that only go forward.
    """

    def __init__(
        self,
        name: str,
        places: int,
        active: Callable[[], Iterable[Context]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._places = places
        self._active = active
        self._now = now
        self._tell_at = 0.0

    def _lost(self) -> tuple[int, list[str]]:
        """How many places such handlers take, and the groups of their messages."""
        tasks, groups = set(), []
        for one in self._active():
            task = one._task
            if one.lease_lost and task is not None:
                tasks.add(task)
                groups.append(one.group)
        return len(tasks), groups

    def tell(self, context: Context) -> None:
        """The lease of a message was found lost, and its plain handler runs in its thread."""
        taken, _ = self._lost()
        log.warning(
            "%s: the lease of message %s of group %r (attempt %d) was lost (released by an operator, or it ran down), "
            "its handler still runs and cannot be stopped: %d of %d places are taken by such handlers",
            self._name, context.id, context.group, context.attempt, taken, self._places,
            extra={"group": context.group, "seq": context.id, "attempt": context.attempt},
        )  # fmt: skip

    def look(self) -> None:
        """Say once in a while that they take all places, where they do."""
        now = self._now()
        if now < self._tell_at:
            return
        taken, groups = self._lost()
        if taken < self._places:
            return
        self._tell_at = now + OFTEN
        different = list(dict.fromkeys(groups))
        more = f" and {len(different) - NAMED} more" if len(different) > NAMED else ""
        log.warning(
            "%s: nothing is claimed, for all places (%d) are taken by handlers that do not end though their leases are "
            "lost (groups %s%s): pause these groups, and restart this worker",
            self._name, self._places, ", ".join(map(repr, different[:NAMED])), more,
        )  # fmt: skip
