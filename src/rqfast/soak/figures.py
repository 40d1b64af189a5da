"""Rates of a history over time, for the report.  No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field

from .calls import DONE, LOST, SECOND, UNKNOWN
from .lives import Lives

BINS = 300


@dataclass(slots=True)
class Figures:
    """What happened when.

    Attributes:
        began: the begin of the history (ns).
        width: of a bin (seconds).
        published, done: messages confirmed and acknowledged in each bin.
        unknown: when outcomes were unknown (seconds since the begin).
        lost: when settlements were told that the lease was lost (likewise).
    """

    began: int
    width: float
    published: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    unknown: list[float] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.width * len(self.published)

    def since(self, at: int) -> float:
        """A time of the history as seconds since its begin."""
        return (at - self.began) / SECOND


def measure(lives: Lives) -> Figures:
    """Count by time."""
    if not lives.calls:
        return Figures(0, 1.0, [0], [0])
    began = lives.calls[0].begun
    end = max(call.ended or call.begun for call in lives.calls)
    seconds = max((end - began) / SECOND, 1e-3)
    width = max(seconds / BINS, 0.25)
    count = int(seconds / width) + 1
    figures = Figures(began, width, [0] * count, [0] * count)
    for call in lives.calls:
        at = figures.since(call.ended or call.begun)
        place = int(at / width)
        figures.published[place] += sum(sent.told == DONE for sent in call.sent)
        if call.how == "ack":
            figures.done[place] += sum(settled.told == DONE for settled in call.settled)
        if call.told == UNKNOWN:
            figures.unknown.append(at)
        if any(settled.told == LOST for settled in call.settled):
            figures.lost.append(at)
    return figures
