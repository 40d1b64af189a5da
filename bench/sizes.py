"""How much each group measures.

`NORMAL` ends in a quarter of an hour on one node; `FULL` (`--full`) takes the sizes of the goals where they differ;
`QUICK` (`--quick`) shows that the suite works, and no figure of it means anything.
"""

from __future__ import annotations

from typing import NamedTuple


class Sizes(NamedTuple):
    """Messages, pairs and seconds."""

    publishes: int = 300_000
    bare_publishes: int = 2500
    plain_publishes: int = 700
    many: int = 200_000
    memory: int = 1_000_000
    worked: int = 20_000
    worked_wide: int = 60_000
    worked_alone: int = 400
    plain_alone: int = 120
    bare_worked: int = 1500
    plain_worked: int = 300
    pairs: int = 400
    depths: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    plain_depths: tuple[int, ...] = (1_000, 10_000, 100_000)
    claims: int = 300
    behind: int = 100_000
    idle: float = 15.0
    polling: float = 5.0
    lapse: float = 60.0
    floor: int = 100_000
    embedded: int = 20_000
    embedded_alone: int = 1200


NORMAL = Sizes()
QUICK = Sizes(
    publishes=5000,
    bare_publishes=300,
    plain_publishes=100,
    many=10_000,
    memory=50_000,
    worked=2000,
    worked_wide=8000,
    worked_alone=50,
    plain_alone=20,
    bare_worked=200,
    plain_worked=60,
    pairs=40,
    depths=(1_000, 5_000),
    plain_depths=(1_000,),
    claims=30,
    behind=4000,
    idle=2.0,
    polling=1.0,
    lapse=8.0,
    floor=10_000,
    embedded=1000,
    embedded_alone=60,
)
FULL = Sizes(many=1_000_000, idle=60.0, polling=60.0, plain_depths=NORMAL.depths)
