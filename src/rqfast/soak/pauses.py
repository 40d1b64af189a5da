"""What callers see when a cluster loses its leader: how long their calls stand still.  No I/O."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from .calls import SECOND, Call
from .faults import Fault
from .lives import Lives

LONGEST = 120 * SECOND


@dataclass(frozen=True, slots=True)
class Pause:
    """The leader was lost.

    Attributes:
        fault: by what, and for how long there was none.
        seconds: how long the call stood still that stood longest, counted from the fault.
        name: of that call's method; "" when none was under way.
    """

    fault: Fault
    seconds: float
    name: str


def pauses(lives: Lives, faults: Iterable[Fault]) -> list[Pause]:
    """The longest pause of any caller for each fault by which the leader was lost."""
    begun = [call.begun for call in lives.calls]
    found = []
    for fault in faults:
        if fault.election is None:
            continue
        until = fault.at + round(fault.election * SECOND)
        first, last = bisect_left(begun, fault.at - LONGEST), bisect_right(begun, until)
        longest = max(((_stood(call, fault.at), call.name) for call in lives.calls[first:last]), default=(0, ""))
        found.append(Pause(fault, longest[0] / SECOND, longest[1] if longest[0] else ""))
    return found


def _stood(call: Call, since: int) -> int:
    """How long a call stood still after that time (ns); one that waits for messages does not."""
    if call.ended is None or call.ended <= since or (call.is_claim and not call.held and not call.settled):
        return 0
    return call.ended - max(call.begun, since)
