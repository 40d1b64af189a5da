"""Wakes the waiting claims of a process when something is published in the same process, by any transport."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable

_lock = threading.Lock()
_waiting: dict[Hashable, list[weakref.WeakMethod[Callable[[], None]]]] = {}


def register(queue: Hashable, wake: Callable[[], None]) -> None:
    """Call the bound method `wake` (from any thread) at each publish into `queue`, as long as its object lives."""
    with _lock:
        _waiting.setdefault(queue, []).append(weakref.WeakMethod(wake))


def stir(queue: Hashable) -> None:
    """Something was published into `queue`."""
    stale = False
    for reference in _waiting.get(queue, ()):
        wake = reference()
        if wake is None:
            stale = True
        else:
            wake()
    if stale:
        with _lock:
            alive = [reference for reference in _waiting[queue] if reference() is not None]
            if alive:
                _waiting[queue] = alive
            else:
                del _waiting[queue]
