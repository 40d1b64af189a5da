"""A claim that is done only when more is: its future."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from .._core import ClaimFuture, Lease


def after(claim: ClaimFuture, work: asyncio.Future[Any], give_back: Callable[[list[Lease[Any]]], None]) -> ClaimFuture:
    """The future of a claim and more: done when `work`, which awaits the claim, is done; it ends with it."""
    outer = ClaimFuture(claim.get_loop().create_future(), give_back)

    def hand_over(done: asyncio.Future[Any]) -> None:
        if done.cancelled():
            claim.drop()
            outer.cancel()
        elif (error := done.exception()) is not None:
            if not outer.done():
                outer.set_exception(error)
        elif not outer.done():
            outer.set_result(done.result())
        elif done.result():
            give_back(done.result())

    work.add_done_callback(hand_over)
    outer.add_done_callback(lambda _: work.cancel())
    return outer
