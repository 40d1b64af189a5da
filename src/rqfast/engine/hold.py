"""Locks that Ctrl-C leaves free.

In Python 3.14 an interrupt may come after `with lock` has taken the lock and before its block begins, and then nothing
gives it back.  So whatever the user calls lets go on its way out, which a lock that knows its thread makes safe.
"""

from __future__ import annotations

import contextlib
import threading

# A lock that only the thread that holds it can release.
Hold = threading.RLock


def let_go(*locks: threading.RLock) -> None:
    """Release those that this thread holds; the others stay as they are."""
    for lock in locks:
        with contextlib.suppress(RuntimeError):
            while True:
                lock.release()
