"""How much each group measures.

`NORMAL` ends in a quarter of an hour on one node; `FULL` (`--full`) takes the sizes of the goals where they differ.
"""

from __future__ import annotations

from typing import NamedTuple


class Sizes(NamedTuple):
    """Messages, pairs and seconds."""

    publishes: int = 80_000
    bare_publishes: int = 2500
    plain_publishes: int = 700
    raw_publishes: int = 150_000
    many: int = 200_000
    worked: int = 20_000
    worked_wide: int = 60_000
    worked_alone: int = 500
    bare_worked: int = 1500
    plain_worked: int = 300
    pairs: int = 400
    depths: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    plain_depths: tuple[int, ...] = (1_000, 10_000, 100_000)
    claims: int = 300
    behind: int = 100_000
    idle: float = 15.0
    polling: float = 5.0
    floor: int = 100_000


NORMAL = Sizes()
FULL = Sizes(many=1_000_000, idle=60.0, polling=60.0, plain_depths=NORMAL.depths)
