"""One call for both: a coroutine awaits it, a thread waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


def hop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> Any:
    """Run work of a loop: on that loop it begins at once, and its task is to be awaited; a thread without a loop waits
    here for what it returns."""
    try:
        here = asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run_coroutine_threadsafe(work, loop).result()
    if here is loop:
        return loop.create_task(work)
    return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))
