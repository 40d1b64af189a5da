"""What to do next with a numbered request: a pure function of what came back and what is still open.

The rule behind it: a number is sent until it is applied or refused on that number, to whichever node leads; a
refusal means that it was applied before.  No read is ever taken as proof that something was not applied.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from ..engine.outcome import Kind, Result

FIRST_PATIENCE, LONGEST_PATIENCE = 2.0, 8.0
BYTES_A_SECOND = 4 << 20
MOST_COPIES = 4
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5


class Step(enum.Enum):
    """What the engine does next."""

    DONE = "take the rows"
    READ_AGAIN = "read the results again"
    SEND = "send again"
    WAIT = "wait for the copies that are open"
    RAISE = "raise the error"
    GIVE_UP = "the number was never used"


@dataclass(slots=True)
class Progress:
    """A numbered request on its way.

    `open` copies wait for a reply; `unsure` once a copy may have been applied without our knowing; `abandoned` when
    no caller waits any more, and an empty request takes the number's place; so it does when it `spends` the number of
    one that was refused.
    """

    open: int = 0
    unsure: bool = False
    abandoned: bool = False
    spends: bool = False
    pause: float = FIRST_PAUSE
    text: str = ""
    patience: float = FIRST_PATIENCE
    again_at: float = 0.0

    @property
    def ambiguous(self) -> bool:
        """Whether the request may have taken effect."""
        return self.unsure or self.open > 0

    def sent(self, now: float, size: int) -> None:
        """A copy of so many bytes has left; the next one to the same node, should it stay silent, waits longer."""
        self.open += 1
        # A large one takes its time at the server, and a second copy would double that.
        self.again_at = now + self.patience + size / BYTES_A_SECOND
        self.patience = min(self.patience * 2, LONGEST_PATIENCE)

    def next_pause(self) -> float:
        """How long to rest before the next copy, longer each time."""
        pause, self.pause = self.pause, min(self.pause * 2, LONGEST_PAUSE)
        return pause


def next_step(progress: Progress, result: Result) -> Step:
    """Take in what became of one copy (no longer counted as open)."""
    if result.kind is Kind.APPLIED:
        return Step.DONE
    if result.kind is Kind.REFUSED:
        progress.unsure = True
        return Step.READ_AGAIN
    if result.kind is Kind.FATAL:
        return Step.RAISE
    progress.text = result.text
    if result.kind is Kind.UNKNOWN:
        progress.unsure = True
    if progress.open:
        return Step.WAIT
    if progress.abandoned and not progress.unsure:
        return Step.GIVE_UP
    return Step.SEND
