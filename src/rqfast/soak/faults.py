"""What something else does to the cluster while a soak runs: a file of JSON lines that it writes.

    {"time": 1767225600.5, "kind": "kill leader", "node": "2"}

`time` is seconds since 1970, or of `time.monotonic` of this machine.  A line may have more: of a lost reply "applied",
whether the request was, and "count", how many there were; "leader", whether it hit the leader of that moment;
"election", how long the cluster had no leader then (seconds).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import orjson

from ..errors import ConfigError

SINCE_1970 = 1e9
LOST_REPLY = "lost reply"
STEPPED = "wall clocks stepped"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault.

    Attributes:
        at: when (ns of the history's clock).
        kind: what.
        node: where.
        applied: of a lost reply: whether the request was applied, None: that is not known.
        count: how many.
        on_leader: whether it hit the leader of that moment.
        election: how long the cluster had no leader then (seconds), None: it had one.
    """

    at: int
    kind: str
    node: str
    applied: bool | None = None
    count: int = 1
    on_leader: bool = False
    election: float | None = None

    @property
    def is_lost_reply(self) -> bool:
        """Whether it is a lost reply."""
        return self.kind == LOST_REPLY or self.applied is not None


def read_faults(path: Path, offset: float) -> list[Fault]:
    """Read the file; none that is not there.

    Args:
        offset: how much the wall clock was ahead of the monotonic clock when the soak began (seconds).

    Raises:
        ConfigError: a line is no fault.
    """
    faults: list[Fault] = []
    lines = path.read_bytes().splitlines() if path.exists() else []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                faults.append(_fault(orjson.loads(line), offset))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ConfigError(f"{path}, line {number}: a fault has time, kind and node ({error})") from error
    return sorted(faults, key=lambda fault: fault.at)


def _fault(line: dict[str, object], offset: float) -> Fault:
    at = float(str(line["time"]))
    at = at - offset if at > SINCE_1970 else at
    applied = line.get("applied")
    return Fault(
        at=round(at * 1e9),
        kind=str(line["kind"]),
        node=str(line.get("node", "")),
        applied=None if applied is None else bool(applied),
        count=int(str(line.get("count", 1))),
        on_leader=bool(line.get("leader", False)),
        election=None if line.get("election") is None else float(str(line["election"])),
    )
